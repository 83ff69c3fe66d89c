/* colibri/colibri.h - the C interface: an engine, conversations with it, and single steps.
 *
 *   colibri_engine* engine = NULL;
 *   char* error = NULL;
 *   if (colibri_engine_load("model.gguf", NULL, &engine, &error) != COLIBRI_OK) {
 *     fprintf(stderr, "%s\n", error);
 *     colibri_free(error);
 *     return 1;
 *   }
 *   int32_t* prompt = NULL;
 *   size_t n_prompt = 0;
 *   colibri_tokenize(engine, "Hello", 5, 1, &prompt, &n_prompt, NULL);
 *   colibri_session* session = NULL;
 *   colibri_session_create(engine, 0, &session, NULL);
 *   colibri_generate_options options;
 *   colibri_generate_options_init(&options);
 *   options.max_new_tokens = 64;
 *   options.on_delta = print_text;
 *   colibri_session_generate(session, prompt, n_prompt, &options, NULL, NULL);
 *   colibri_session_free(session);
 *   colibri_free(prompt);
 *   colibri_engine_free(engine);
 *
 * Errors. What can fail returns a colibri_status. Its last argument, char** error, may be NULL;
 * otherwise it is set to NULL on success and to a message on failure, which colibri_free releases
 * (NULL where even the message found no memory). On failure nothing else is written. No exception
 * leaves the library, and no input makes it exit.
 *
 * Memory. What the library hands out through a pointer to a pointer is the caller's, and
 * colibri_free releases it. What the caller passes in is read during the call alone. Freeing NULL
 * is allowed.
 *
 * Threads. One call at a time may use an engine, its sessions and sequences included; a call while
 * another runs (from a callback too) fails with COLIBRI_BUSY. From any thread at any time,
 * callbacks included: colibri_session_cancel, colibri_tokenize, colibri_detokenize, colibri_free,
 * and the functions that free a session or an engine. What is in use is released when the running
 * call ends, and the answer of a freed session is cancelled. A handle that was freed is not passed
 * to any function again. Different engines know nothing of each other.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define COLIBRI_API __attribute__((visibility("default")))
#else
#define COLIBRI_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum colibri_status {
  COLIBRI_OK = 0,
  COLIBRI_INVALID_ARGUMENT = 1,   /* the request is wrong */
  COLIBRI_NOT_FOUND = 2,          /* a file, tensor or key that should be there is not */
  COLIBRI_CORRUPT_DATA = 3,       /* a file contradicts itself or its format */
  COLIBRI_UNSUPPORTED = 4,        /* valid, but outside what this build can do */
  COLIBRI_RESOURCE_EXHAUSTED = 5, /* memory or cache pages would not suffice */
  COLIBRI_IO_ERROR = 6,           /* the system failed a read */
  COLIBRI_CANCELLED = 7,
  COLIBRI_DEADLINE_EXCEEDED = 8,
  COLIBRI_INTERNAL = 9, /* a bug of the library that it caught */
  COLIBRI_BUSY = 10     /* another call is using this engine */
} colibri_status;

typedef struct colibri_engine colibri_engine;
typedef struct colibri_session colibri_session;

/* The library's version, "0.1.0", and a status as words, "invalid argument". Static strings. */
COLIBRI_API const char* colibri_version(void);
COLIBRI_API const char* colibri_status_name(colibri_status status);
/* Releases what the library handed out. */
COLIBRI_API void colibri_free(void* memory);

/* ---- Engine --------------------------------------------------------------------------------- */

typedef enum colibri_log_level {
  COLIBRI_LOG_DEBUG = 0,
  COLIBRI_LOG_INFO = 1,
  COLIBRI_LOG_WARNING = 2
} colibri_log_level;

/* What weights are multiplied by; types without such kernels (f32, f16, iq1, iq2, iq3, tq) always
 * as with F32. */
typedef enum colibri_activations {
  COLIBRI_ACTIVATIONS_INT8 = 0, /* 8 bits with a scale for each 32, bfloat16 for bfloat16 weights */
  COLIBRI_ACTIVATIONS_F32 = 1,  /* as they are */
  COLIBRI_ACTIVATIONS_BF16 = 2  /* bfloat16 for all of them: more exact, at half the arithmetic */
} colibri_activations;

/* What keys and values are stored as. A value beyond the range of f16 ends its sequence with an
 * error. */
typedef enum colibri_kv_type {
  COLIBRI_KV_F16 = 0,
  COLIBRI_KV_F32 = 1,
  COLIBRI_KV_BF16 = 2,
  COLIBRI_KV_Q8_0 = 3
} colibri_kv_type;

typedef struct colibri_engine_options {
  size_t struct_size;
  int32_t n_threads;            /* 0: the CPUs that this process may use */
  int32_t max_context;          /* positions of a sequence; 0: the model's, up to 8192 */
  int32_t max_batch_tokens;     /* tokens of one step; 512 */
  int32_t max_sequences;        /* sessions and sequences alive at one time; 8 */
  uint64_t kv_cache_bytes;      /* 0: chosen from the memory that is available */
  uint64_t memory_budget_bytes; /* for everything; 0: what is available */
  const char* isa;              /* a kernel table's name; NULL: the best that runs here */
  void* user;                   /* handed to both callbacks */
  /* A line without its newline; only while this engine loads. May be NULL. */
  void (*on_log)(void* user, colibri_log_level level, const char* line);
  /* Bytes of weights read, and in all. May be NULL. */
  void (*on_load)(void* user, uint64_t done, uint64_t total);
  int32_t activations; /* a colibri_activations */
  int32_t kv_type;     /* a colibri_kv_type */
} colibri_engine_options;

COLIBRI_API void colibri_engine_options_init(colibri_engine_options* options);

/* Loads the model at `path`: a GGUF file, any part of a split one, or a Hugging Face folder.
 * options may be NULL. Refused with COLIBRI_RESOURCE_EXHAUSTED and a table of sizes, before weights
 * are read, where it would not fit. */
COLIBRI_API colibri_status colibri_engine_load(const char* path,
                                               const colibri_engine_options* options,
                                               colibri_engine** engine, char** error);
/* Sessions that are still alive keep the model in memory until they are freed too. */
COLIBRI_API void colibri_engine_free(colibri_engine* engine);

typedef struct colibri_engine_info {
  size_t struct_size;
  int32_t vocab_size;
  int32_t hidden;
  int32_t n_layers;
  int32_t max_context;
  int32_t max_batch_tokens;
  int32_t max_sequences;
  int32_t n_threads;
  int32_t has_tokenizer; /* 0 or 1 */
  uint64_t weight_bytes;
  uint64_t kv_cache_bytes;
  const char* isa;    /* these two live as long as the engine */
  const char* family; /* "qwen3_moe" */
} colibri_engine_info;

/* Fills as much of `info` as its struct_size, set by the caller, has room for. */
COLIBRI_API void colibri_engine_get_info(const colibri_engine* engine, colibri_engine_info* info);

/* ---- Text ----------------------------------------------------------------------------------- */

/* UTF-8 text of n_bytes as token ids. add_special: with what the model puts around a text (its
 * beginning-of-text token, say). COLIBRI_NOT_FOUND where the model has no tokenizer. */
COLIBRI_API colibri_status colibri_tokenize(const colibri_engine* engine, const char* text,
                                            size_t n_bytes, int add_special, int32_t** tokens,
                                            size_t* n_tokens, char** error);
/* Token ids as text, which is followed by a zero byte that n_bytes (may be NULL) does not count.
 * Bytes that are no character read U+FFFD. */
COLIBRI_API colibri_status colibri_detokenize(const colibri_engine* engine, const int32_t* tokens,
                                              size_t n_tokens, int skip_special, char** text,
                                              size_t* n_bytes, char** error);

/* ---- Answers -------------------------------------------------------------------------------- */

typedef enum colibri_finish {
  COLIBRI_FINISH_STOP = 0,        /* a token that ends an answer */
  COLIBRI_FINISH_STOP_STRING = 1, /* one of stop_strings */
  COLIBRI_FINISH_LENGTH = 2,      /* max_new_tokens */
  COLIBRI_FINISH_CONTEXT = 3,     /* no room for another token */
  COLIBRI_FINISH_CANCELLED = 4
} colibri_finish;

typedef struct colibri_logit_bias {
  int32_t token;
  float bias; /* [-100, 100] */
} colibri_logit_bias;

typedef struct colibri_generate_options {
  size_t struct_size;
  int32_t max_new_tokens; /* 0: as many as the context holds */
  /* How the next token is chosen, in this order: penalties, logit_bias, temperature, top_k, top_p,
   * min_p. The same seed gives the same answer, whatever else the engine computes. */
  float temperature;        /* [0, 100]; 0: greedy */
  int32_t top_k;            /* 0: all */
  float top_p;              /* (0, 1] */
  float min_p;              /* [0, 1] */
  float repetition_penalty; /* (0, 100], of every token of prompt and answer; 1: none */
  float presence_penalty;   /* [-100, 100], of the answer's tokens */
  float frequency_penalty;  /* [-100, 100] */
  uint64_t seed;
  const colibri_logit_bias* logit_bias;
  size_t n_logit_bias;
  const char* const* stop_strings; /* the answer ends before the first to appear */
  size_t n_stop_strings;
  const int32_t* stop_tokens; /* besides the model's own */
  size_t n_stop_tokens;
  int32_t ignore_eos;   /* 1: the model's own end tokens do not end the answer */
  int32_t keep_special; /* 1: the text shows special tokens */
  void* user;           /* handed to both callbacks */
  /* What a token added to the text: whole characters, never a part of a stop string, maybe nothing.
   * `token` is -1 when only text that was held back follows. Return 0 to go on, anything else to
   * cancel. May be NULL. */
  int (*on_delta)(void* user, const char* text, size_t n_bytes, int32_t token);
  /* Prompt tokens done, and in all. May be NULL. */
  void (*on_prefill)(void* user, int32_t done, int32_t total);
} colibri_generate_options;

COLIBRI_API void colibri_generate_options_init(colibri_generate_options* options);

typedef struct colibri_result {
  size_t struct_size;
  colibri_finish finish;
  int32_t n_prompt; /* prompt tokens... */
  int32_t n_cached; /* ...of which the session held this many already */
  double prefill_s; /* until the first token */
  double decode_s;  /* from there on */
  int32_t* tokens;  /* of the answer; one that ended it is the last */
  size_t n_tokens;
  char* text; /* without stop string; a zero byte follows */
  size_t n_bytes;
} colibri_result;

COLIBRI_API void colibri_result_init(colibri_result* result);
/* Releases what it points to, not itself. */
COLIBRI_API void colibri_result_clear(colibri_result* result);

/* A conversation of up to max_tokens (0: the engine's context), whose cache is taken at once. */
COLIBRI_API colibri_status colibri_session_create(colibri_engine* engine, int32_t max_tokens,
                                                  colibri_session** session, char** error);
COLIBRI_API void colibri_session_free(colibri_session* session);

/* Answers `prompt`, the whole conversation up to here: what it has in common with what the session
 * holds is not computed again. options and result may be NULL; result must be initialised. A
 * cancelled or failed answer leaves the session usable. */
COLIBRI_API colibri_status colibri_session_generate(colibri_session* session, const int32_t* prompt,
                                                    size_t n_prompt,
                                                    const colibri_generate_options* options,
                                                    colibri_result* result, char** error);
/* Ends the answer that is being generated within one step; no effect when there is none. Safe in a
 * signal handler. */
COLIBRI_API void colibri_session_cancel(colibri_session* session);
/* Forgets the conversation. */
COLIBRI_API colibri_status colibri_session_reset(colibri_session* session, char** error);

/* ---- Steps: for callers that schedule and sample themselves ---------------------------------- */

/* A sequence that may grow to max_tokens; its cache is taken at once. Ids are never used twice. */
COLIBRI_API colibri_status colibri_sequence_create(colibri_engine* engine, int32_t max_tokens,
                                                   int64_t* sequence, char** error);
/* Forgets all but its first n_tokens. */
COLIBRI_API colibri_status colibri_sequence_truncate(colibri_engine* engine, int64_t sequence,
                                                     int32_t n_tokens, char** error);
COLIBRI_API colibri_status colibri_sequence_release(colibri_engine* engine, int64_t sequence,
                                                    char** error);

typedef enum colibri_want {
  COLIBRI_WANT_NONE = 0,
  COLIBRI_WANT_LAST = 1, /* the logits after the last token */
  COLIBRI_WANT_ALL = 2   /* after every token */
} colibri_want;

typedef struct colibri_step_item {
  size_t struct_size; /* sizeof(colibri_step_item), in every item */
  int64_t sequence;
  const int32_t* tokens; /* at the position where the sequence stands */
  size_t n_tokens;
  colibri_want want;
  /* Written: */
  colibri_status status;
  int32_t first_logits_row; /* of `logits` */
  int32_t n_logits_rows;
  char message[240]; /* why, cut to this length; empty on success */
} colibri_step_item;

/* Computes all items in one batch: chunks of prompts and single tokens, of different sequences. A
 * failed item leaves its sequence as it was and the others untouched; its status says so, while the
 * call succeeds. logits: room for logits_floats values, a row of vocab_size for each one wanted. */
COLIBRI_API colibri_status colibri_step(colibri_engine* engine, colibri_step_item* items,
                                        size_t n_items, float* logits, size_t logits_floats,
                                        char** error);

#ifdef __cplusplus
} /* extern "C" */
#endif
