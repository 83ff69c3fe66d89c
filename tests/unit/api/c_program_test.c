/* The public header compiled as C, and a whole conversation through it. RunCProgram returns 0, or
 * the line where something was not as it should be. */
#include <stdio.h>
#include <string.h>

#include "colibri/colibri.h"

#define EXPECT(condition)              \
  do {                                 \
    if (!(condition)) return __LINE__; \
  } while (0)

int RunCProgram(const char* model_path);

typedef struct Shown {
  char text[4096];
  size_t n_bytes;
  int n_calls;
} Shown;

static int ShowText(void* user, const char* text, size_t n_bytes, int32_t token) {
  Shown* shown = (Shown*)user;
  (void)token;
  if (shown->n_bytes + n_bytes >= sizeof(shown->text)) return 1;
  memcpy(shown->text + shown->n_bytes, text, n_bytes);
  shown->n_bytes += n_bytes;
  shown->text[shown->n_bytes] = 0;
  ++shown->n_calls;
  return 0;
}

static int Converse(colibri_engine* engine) {
  static const char kPrompt[] =
      "<|im_start|>system\nYou are Colibri Nano.<|im_end|>\n"
      "<|im_start|>user\nWhat is 368 + 26?<|im_end|>\n<|im_start|>assistant\n";
  char* error = NULL;
  int32_t* prompt = NULL;
  size_t n_prompt = 0;
  EXPECT(colibri_tokenize(engine, kPrompt, sizeof(kPrompt) - 1, 1, &prompt, &n_prompt, &error) ==
         COLIBRI_OK);
  EXPECT(error == NULL && n_prompt > 10);

  colibri_session* session = NULL;
  EXPECT(colibri_session_create(engine, 256, &session, &error) == COLIBRI_OK);

  Shown shown = {"", 0, 0};
  colibri_generate_options options;
  colibri_generate_options_init(&options);
  options.max_new_tokens = 64;
  options.on_delta = ShowText;
  options.user = &shown;
  colibri_result result;
  colibri_result_init(&result);
  EXPECT(colibri_session_generate(session, prompt, n_prompt, &options, &result, &error) ==
         COLIBRI_OK);
  EXPECT(result.finish == COLIBRI_FINISH_STOP);
  EXPECT(strcmp(result.text, "8+6=14, 6+2+1=9, 3+0=3: 394") == 0);
  EXPECT(strcmp(result.text, shown.text) == 0);
  EXPECT((size_t)shown.n_calls == result.n_tokens);
  EXPECT(result.n_prompt == (int32_t)n_prompt && result.n_cached == 0);

  char* text = NULL;
  size_t n_bytes = 0;
  EXPECT(colibri_detokenize(engine, result.tokens, result.n_tokens, 1, &text, &n_bytes, NULL) ==
         COLIBRI_OK);
  EXPECT(n_bytes == result.n_bytes && strcmp(text, result.text) == 0);
  colibri_free(text);
  colibri_result_clear(&result);
  EXPECT(result.text == NULL && result.tokens == NULL);

  /* The same again needs one token of the prompt. */
  EXPECT(colibri_session_generate(session, prompt, n_prompt, NULL, &result, NULL) == COLIBRI_OK);
  EXPECT(result.n_cached == (int32_t)n_prompt - 1);
  colibri_result_clear(&result);
  EXPECT(colibri_session_reset(session, NULL) == COLIBRI_OK);

  options.top_p = 7;
  EXPECT(colibri_session_generate(session, prompt, n_prompt, &options, &result, &error) ==
         COLIBRI_INVALID_ARGUMENT);
  EXPECT(error != NULL && strstr(error, "top_p is 7") != NULL);
  colibri_free(error);

  colibri_session_free(session);
  colibri_free(prompt);
  return 0;
}

int RunCProgram(const char* model_path) {
  char* error = NULL;
  colibri_engine* engine = NULL;
  EXPECT(colibri_engine_load("/nonexistent.gguf", NULL, &engine, &error) != COLIBRI_OK);
  EXPECT(engine == NULL && error != NULL && strstr(error, "/nonexistent.gguf") != NULL);
  colibri_free(error);

  colibri_engine_options options;
  colibri_engine_options_init(&options);
  options.n_threads = 2;
  options.max_context = 512;
  EXPECT(colibri_engine_load(model_path, &options, &engine, &error) == COLIBRI_OK);
  EXPECT(error == NULL);
  const int line = Converse(engine);
  colibri_engine_free(engine);
  return line;
}
