// `colibri tokenize`: text as a model's token ids, and back.
#include <simdjson.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/strings.h"
#include "cli/command.h"
#include "cli/default_model.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/json_text.h"
#include "cli/line_editor.h"
#include "cli/measure.h"
#include "cli/token_ids.h"
#include "cli/tokenizer_files.h"
#include "text/tokenizer.h"

namespace colibri::cli {
namespace {

struct Options {
  std::string model;
  std::string text = "-";
  bool jsonl = false;
  bool bare = false;
  bool pieces = false;
  bool count = false;
  bool decode = false;
  std::string bench;
};

constexpr EncodeOptions kBare = {.add_special_tokens = false};

Status WriteLine(const Tokenizer& tokenizer, bool adds_tokens, std::string_view text,
                 std::string& out) {
  COLIBRI_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.Encode(text));
  out = "{\"ids\": ";
  AppendJsonIds(out, ids);
  out += ", \"ids_bare\": ";
  if (adds_tokens) {
    COLIBRI_ASSIGN_OR_RETURN(const std::vector<int32_t> bare, tokenizer.Encode(text, kBare));
    AppendJsonIds(out, bare);
  } else {
    AppendJsonIds(out, ids);
  }
  out += ", \"decoded\": ";
  AppendJsonString(out, tokenizer.Decode(ids));
  out += ", \"decoded_skip\": ";
  AppendJsonString(out, tokenizer.Decode(ids, /*skip_special=*/true));
  out += "}\n";
  return {};
}

Result<std::string_view> TextOfLine(simdjson::dom::parser& parser, const std::string& line) {
  std::string_view text;
  if (const auto error = parser.parse(line)["text"].get_string().get(text)) {
    return InvalidArgument(
        StrCat("expected an object with a string \"text\": ", simdjson::error_message(error)));
  }
  return text;
}

ExitCode RunJsonLines(const Tokenizer& tokenizer, Console& console) {
  // What surrounds a text does not depend on it: where nothing surrounds the empty text, ids with
  // and without it are the same.
  const Result<std::vector<int32_t>> around = tokenizer.Encode("");
  if (!around.ok()) return console.Fail(around.status());
  InterruptScope interrupt;
  const std::unique_ptr<LineReader> reader = MakePipeReader(interrupt);
  simdjson::dom::parser parser;
  std::string line;
  std::string out;
  for (int64_t number = 1; console.output_open(); ++number) {
    const Result<LineOutcome> outcome = reader->Read(line);
    if (!outcome.ok()) return console.Fail(outcome.status());
    if (*outcome == LineOutcome::kInterrupted) return ExitCode::kInterrupted;
    if (*outcome == LineOutcome::kEnd) break;
    Result<std::string_view> text = TextOfLine(parser, line);
    Status status =
        text.ok() ? WriteLine(tokenizer, !around->empty(), *text, out) : std::move(text).status();
    if (!status.ok()) {
      console.Flush();
      return console.Fail(std::move(status).WithContext(StrCat("line ", number)));
    }
    console.Write(out);
  }
  return console.Finish();
}

// Encodes a file as one text and says how fast.
ExitCode RunBench(const Options& options, const Tokenizer& tokenizer, Console& console) {
  constexpr int kRuns = 5;
  const Result<std::string> text = ReadTextFile(options.bench);
  if (!text.ok()) return console.Fail(text.status());
  size_t n_tokens = 0;
  std::vector<double> rates;
  for (int run = 0; run < kRuns; ++run) {
    const Stopwatch watch;
    const Result<std::vector<int32_t>> ids = tokenizer.Encode(*text, kBare);
    const double seconds = watch.Seconds();
    if (!ids.ok()) return console.Fail(ids.status());
    n_tokens = ids->size();
    rates.push_back(static_cast<double>(text->size()) / seconds / 1e6);
  }
  const Spread spread = SpreadOf(std::move(rates));
  console.Write(StrCat(text->size(), " bytes, ", n_tokens, " tokens, ", spread.median, " MB/s (",
                       spread.min, " to ", spread.max, ", ", kRuns, " runs)\n"));
  return console.Finish();
}

std::string Pieces(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::string out;
  for (const int32_t id : ids) {
    out += StrCat(id, "\t");
    AppendJsonString(out, tokenizer.IdToToken(id));
    out += '\n';
  }
  return out;
}

ExitCode RunText(const Options& options, const Tokenizer& tokenizer, Console& console) {
  std::string text = options.text;
  if (text == "-") {
    Result<std::string> input = ReadStandardInput();
    if (!input.ok()) return console.Fail(input.status());
    text = *std::move(input);
  }
  if (options.decode) {
    const Result<std::vector<int32_t>> ids = ParseTokenIds(text);
    if (!ids.ok()) return console.Fail(ids.status());
    for (const int32_t id : *ids) {
      if (id >= tokenizer.vocab_size()) {
        return console.Fail(
            InvalidArgument(StrCat("token id ", id, " must be below ", tokenizer.vocab_size())));
      }
    }
    console.Write(StrCat(tokenizer.Decode(*ids, options.bare), "\n"));
    return console.Finish();
  }
  const Result<std::vector<int32_t>> ids =
      tokenizer.Encode(text, {.add_special_tokens = !options.bare});
  if (!ids.ok()) return console.Fail(ids.status());
  if (options.count) {
    console.Write(StrCat(ids->size(), "\n"));
  } else {
    console.Write(options.pieces ? Pieces(tokenizer, *ids) : StrCat(FormatTokenIds(*ids), "\n"));
  }
  return console.Finish();
}

ExitCode Run(const Options& options, Console& console) {
  const Result<std::string> model = ModelOrDefault(options.model);
  if (!model.ok()) return console.Fail(model.status());
  const Result<std::unique_ptr<Tokenizer>> tokenizer = OpenTokenizer(*model, console.MakeLog());
  if (!tokenizer.ok()) return console.Fail(tokenizer.status());
  if (!options.bench.empty()) return RunBench(options, **tokenizer, console);
  return options.jsonl ? RunJsonLines(**tokenizer, console)
                       : RunText(options, **tokenizer, console);
}

CommandBody Add(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("TEXT", options->text, "The text; - or nothing reads all of standard input");
  app.add_option("-m,--model", options->model,
                 "A .gguf file, a folder or a tokenizer.json; Colibri Nano when none is named")
      ->type_name("MODEL");
  CLI::Option* jsonl = app.add_flag(
      "--jsonl", options->jsonl,
      "Read lines {\"text\"} and write lines {\"ids\", \"ids_bare\", \"decoded\", "
      "\"decoded_skip\"}: "
      "ids with and without what surrounds a text, the ids as text, the same without special "
      "tokens");
  app.add_flag("--bare", options->bare,
               "Leave out the tokens that surround a text; with --decode, special tokens");
  CLI::Option* pieces =
      app.add_flag("--pieces", options->pieces, "Print a line a token: id, tab, token");
  CLI::Option* count = app.add_flag("--count", options->count, "Print the number of tokens alone");
  CLI::Option* decode = app.add_flag("--decode", options->decode, "Read ids and print their text");
  CLI::Option* bench =
      app.add_option("--bench", options->bench, "Measure how fast this file is encoded")
          ->type_name("FILE");
  for (CLI::Option* one : {jsonl, pieces, count, decode, bench}) {
    for (CLI::Option* other : {jsonl, pieces, count, decode, bench}) {
      if (one != other) one->excludes(other);
    }
  }
  return [options](Console& console) { return Run(*options, console); };
}

}  // namespace

const Command kTokenizeCommand = {
    "tokenize",         "Turn text into a model's token ids, or ids into text",
    "[OPTIONS] [TEXT]",
    R"(Examples:
  colibri tokenize "Hello, world"
  colibri tokenize --model tokenizer.json --jsonl < in.jsonl > out.jsonl
  colibri tokenize --decode "1 2 3")",       Add,
};

}  // namespace colibri::cli
