/* A program of somebody else's: answers a prompt with the installed library.
 *   consumer_c MODEL PROMPT */
#include <colibri/colibri.h>
#include <stdio.h>
#include <string.h>

static int Print(void* user, const char* text, size_t n_bytes, int32_t token) {
  (void)user;
  (void)token;
  fwrite(text, 1, n_bytes, stdout);
  return 0;
}

static int Fail(char* error) {
  fprintf(stderr, "%s\n", error != NULL ? error : "no message");
  colibri_free(error);
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  char* error = NULL;
  colibri_engine* engine = NULL;
  if (colibri_engine_load(argv[1], NULL, &engine, &error) != COLIBRI_OK) return Fail(error);
  int32_t* prompt = NULL;
  size_t n_prompt = 0;
  if (colibri_tokenize(engine, argv[2], strlen(argv[2]), 1, &prompt, &n_prompt, &error) !=
      COLIBRI_OK) {
    return Fail(error);
  }
  colibri_session* session = NULL;
  if (colibri_session_create(engine, 0, &session, &error) != COLIBRI_OK) return Fail(error);
  colibri_generate_options options;
  colibri_generate_options_init(&options);
  options.max_new_tokens = 8;
  options.on_delta = Print;
  if (colibri_session_generate(session, prompt, n_prompt, &options, NULL, &error) != COLIBRI_OK) {
    return Fail(error);
  }
  printf("\n");
  colibri_session_free(session);
  colibri_free(prompt);
  colibri_engine_free(engine);
  return 0;
}
