#include <simdjson.h>

#include <utility>

#include "base/strings.h"
#include "text/json_components.h"
#include "text/json_reader.h"
#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"

namespace colibri {
namespace {

// Writes whole numbers too large for 64 bits as floating point, which is all that the parser takes:
// "model_max_length" is often 10^30, and nothing here reads it.
std::string WithoutHugeIntegers(std::string_view json) {
  constexpr size_t kSafeDigits = 18;
  std::string out;
  bool in_string = false;
  for (size_t pos = 0; pos < json.size();) {
    const char c = json[pos];
    if (in_string && c == '\\' && pos + 1 < json.size()) {
      out.append(json, pos, 2);
      pos += 2;
      continue;
    }
    if (c == '"') in_string = !in_string;
    if (in_string || c < '0' || c > '9') {
      out += c;
      ++pos;
      continue;
    }
    const size_t begin = pos;
    while (pos < json.size() && json[pos] >= '0' && json[pos] <= '9') ++pos;
    out.append(json, begin, pos - begin);
    const char before = begin == 0 ? ' ' : json[begin - 1];
    const char after = pos == json.size() ? ' ' : json[pos];
    const bool part_of_float = before == '.' || before == 'e' || before == 'E' || before == '+' ||
                               after == '.' || after == 'e' || after == 'E';
    if (pos - begin > kSafeDigits && !part_of_float) out += ".0";
  }
  return out;
}

Result<JsonObject> ParseRoot(simdjson::dom::parser& parser, std::string_view json) {
  JsonObject::Element root;
  simdjson::error_code error = parser.parse(json.data(), json.size()).get(root);
  if (error == simdjson::NUMBER_ERROR) error = parser.parse(WithoutHugeIntegers(json)).get(root);
  if (error != simdjson::SUCCESS) {
    return CorruptData(StrCat("not valid JSON: ", simdjson::error_message(error)));
  }
  return JsonObject::From(root, "");
}

Result<int32_t> CheckedId(JsonObject::Element element, std::string_view path,
                          std::string_view token) {
  int64_t id = -1;
  if (element.get(id) != simdjson::SUCCESS || id < 0 || id >= kMaxTokenIds) {
    return CorruptData(StrCat(path, ": the id of '", Printable(token), "' is not a number in 0..",
                              kMaxTokenIds - 1));
  }
  return static_cast<int32_t>(id);
}

Status ReadVocab(const JsonObject& model, StringTable& vocab) {
  COLIBRI_ASSIGN_OR_RETURN(const JsonObject object, model.RequireObject("vocab"));
  vocab.Reserve(object.object().size(), object.object().size() * 8);
  for (const simdjson::dom::key_value_pair entry : object.object()) {
    COLIBRI_ASSIGN_OR_RETURN(const int32_t id, CheckedId(entry.value, object.path(), entry.key));
    if (!vocab.Insert(entry.key, id)) {
      return CorruptData(StrCat(object.path(), ": the token '", Printable(entry.key),
                                "' or its id ", id, " occurs twice"));
    }
  }
  if (vocab.size() == 0) return CorruptData(StrCat(object.path(), ": empty"));
  return Status();
}

// One merge, spelled "left right" or ["left", "right"].
Status SplitMerge(JsonObject::Element element, const std::string& where, std::string_view& left,
                  std::string_view& right) {
  std::string_view text;
  if (element.get(text) == simdjson::SUCCESS) {
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      return CorruptData(StrCat(where, ": '", Printable(text), "' is not two tokens and a space"));
    }
    left = text.substr(0, space);
    right = text.substr(space + 1);
    return Status();
  }
  simdjson::dom::array pair;
  if (element.get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
      pair.at(0).get(left) != simdjson::SUCCESS || pair.at(1).get(right) != simdjson::SUCCESS) {
    return CorruptData(StrCat(where, ": expected two tokens"));
  }
  return Status();
}

Result<std::vector<BpeModel::Merge>> ReadMerges(const JsonObject& model, const StringTable& vocab,
                                                std::string_view prefix) {
  COLIBRI_ASSIGN_OR_RETURN(const simdjson::dom::array array, model.RequireArray("merges"));
  std::vector<BpeModel::Merge> merges;
  std::string joined;
  const auto where = [&] { return StrCat(model.PathOf("merges"), "[", merges.size(), "]"); };
  for (const JsonObject::Element element : array) {
    std::string_view left, right;
    COLIBRI_RETURN_IF_ERROR(SplitMerge(element, where(), left, right));
    const auto find = [&](std::string_view token, int32_t& id) -> Status {
      id = vocab.Find(token);
      if (id != StringTable::kNone) return Status();
      return CorruptData(
          StrCat(where(), ": the token '", Printable(token), "' is not in the vocabulary"));
    };
    BpeModel::Merge merge{
        .left = 0, .right = 0, .merged = 0, .rank = static_cast<uint32_t>(merges.size())};
    COLIBRI_RETURN_IF_ERROR(find(left, merge.left));
    COLIBRI_RETURN_IF_ERROR(find(right, merge.right));
    joined.assign(left);
    joined.append(right.substr(right.starts_with(prefix) ? prefix.size() : 0));
    COLIBRI_RETURN_IF_ERROR(find(joined, merge.merged));
    merges.push_back(merge);
  }
  return merges;
}

Status ReadModel(const JsonObject& root, bool byte_level, TokenizerParts& parts) {
  COLIBRI_ASSIGN_OR_RETURN(const JsonObject model, root.RequireObject("model"));
  COLIBRI_ASSIGN_OR_RETURN(const std::string_view type, model.OptionalString("type"));
  if (!type.empty() && type != "BPE") {
    return Unsupported(StrCat("model.type: '", Printable(type), "' is not supported, only BPE"));
  }
  if (model.Find("dropout")) {
    double dropout = 1;
    if (model.Find("dropout")->get(dropout) != simdjson::SUCCESS || dropout != 0) {
      return Unsupported("model.dropout: merging at random is not supported");
    }
  }
  BpeOptions options;
  options.byte_level = byte_level;
  COLIBRI_ASSIGN_OR_RETURN(options.byte_fallback, model.Bool("byte_fallback", false));
  COLIBRI_ASSIGN_OR_RETURN(options.ignore_merges, model.Bool("ignore_merges", false));
  COLIBRI_ASSIGN_OR_RETURN(options.fuse_unk, model.Bool("fuse_unk", false));
  COLIBRI_ASSIGN_OR_RETURN(options.continuing_prefix,
                           model.OptionalString("continuing_subword_prefix"));
  COLIBRI_ASSIGN_OR_RETURN(options.word_suffix, model.OptionalString("end_of_word_suffix"));
  if (byte_level && !(options.continuing_prefix.empty() && options.word_suffix.empty())) {
    return Unsupported("model: a prefix or suffix of subwords with a byte-level pre-tokenizer");
  }
  COLIBRI_RETURN_IF_ERROR(ReadVocab(model, parts.vocab));
  COLIBRI_ASSIGN_OR_RETURN(const std::string_view unk, model.OptionalString("unk_token"));
  if (!unk.empty()) {
    options.unk_id = parts.vocab.Find(unk);
    if (options.unk_id == StringTable::kNone && !byte_level) {
      return CorruptData(
          StrCat("model.unk_token: '", Printable(unk), "' is not in the vocabulary"));
    }
  }
  COLIBRI_ASSIGN_OR_RETURN(const std::vector<BpeModel::Merge> merges,
                           ReadMerges(model, parts.vocab, options.continuing_prefix));
  COLIBRI_ASSIGN_OR_RETURN(parts.model, BpeModel::Build(parts.vocab, std::move(options), merges));
  return Status();
}

Status ReadAddedToken(const JsonObject& object, TokenizerParts& parts) {
  AddedToken token;
  COLIBRI_ASSIGN_OR_RETURN(token.content, object.RequireString("content"));
  COLIBRI_ASSIGN_OR_RETURN(const JsonObject::Element id, object.Require("id"));
  COLIBRI_ASSIGN_OR_RETURN(token.id, CheckedId(id, object.path(), token.content));
  COLIBRI_ASSIGN_OR_RETURN(token.special, object.Bool("special", false));
  COLIBRI_ASSIGN_OR_RETURN(token.single_word, object.Bool("single_word", false));
  COLIBRI_ASSIGN_OR_RETURN(token.lstrip, object.Bool("lstrip", false));
  COLIBRI_ASSIGN_OR_RETURN(token.rstrip, object.Bool("rstrip", false));
  COLIBRI_ASSIGN_OR_RETURN(token.normalized, object.Bool("normalized", !token.special));
  if (token.content.empty()) return Status();  // Hugging Face ignores it too
  const int32_t known = parts.vocab.Find(token.content);
  if (known != StringTable::kNone && known != token.id) {
    return CorruptData(StrCat(object.path(), ": the token '", Printable(token.content),
                              "' has the id ", token.id, " here and ", known, " before"));
  }
  if (known == StringTable::kNone && parts.vocab.Contains(token.id)) {
    return CorruptData(StrCat(object.path(), ": the id ", token.id, " of '",
                              Printable(token.content), "' is that of '",
                              Printable(parts.vocab.Text(token.id)), "'"));
  }
  parts.AddToken(token);
  return Status();
}

Status ReadAddedTokens(const JsonObject& root, TokenizerParts& parts) {
  if (!root.Find("added_tokens")) return Status();
  COLIBRI_ASSIGN_OR_RETURN(const simdjson::dom::array array, root.RequireArray("added_tokens"));
  size_t index = 0;
  for (const JsonObject::Element element : array) {
    COLIBRI_ASSIGN_OR_RETURN(const JsonObject object,
                             JsonObject::From(element, StrCat("added_tokens[", index++, "]")));
    COLIBRI_RETURN_IF_ERROR(ReadAddedToken(object, parts));
  }
  return Status();
}

// "bos_token" and its like: a string, or an object with "content".
Status ReadNamedToken(const JsonObject& config, std::string_view key, const StringTable& vocab,
                      std::optional<int32_t>& out) {
  const std::optional<JsonObject::Element> element = config.Find(key);
  if (!element) return Status();
  std::string_view content;
  if (element->get(content) != simdjson::SUCCESS) {
    COLIBRI_ASSIGN_OR_RETURN(const JsonObject object,
                             JsonObject::From(*element, config.PathOf(key)));
    COLIBRI_ASSIGN_OR_RETURN(content, object.RequireString("content"));
  }
  if (content.empty()) return Status();
  const int32_t id = vocab.Find(content);
  if (id == StringTable::kNone) {
    return CorruptData(
        StrCat(config.PathOf(key), ": '", Printable(content), "' is not in tokenizer.json"));
  }
  out = id;
  return Status();
}

// A string, or a list of templates with names of which one is "default".
Status ReadChatTemplate(const JsonObject& config, std::string& out) {
  const std::optional<JsonObject::Element> element = config.Find("chat_template");
  if (!element) return Status();
  std::string_view text;
  if (element->get(text) == simdjson::SUCCESS) {
    out = text;
    return Status();
  }
  COLIBRI_ASSIGN_OR_RETURN(const simdjson::dom::array list, config.RequireArray("chat_template"));
  for (const JsonObject::Element item : list) {
    COLIBRI_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::From(item, "chat_template[]"));
    COLIBRI_ASSIGN_OR_RETURN(const std::string_view name, object.RequireString("name"));
    if (name != "default") continue;
    COLIBRI_ASSIGN_OR_RETURN(out, object.RequireString("template"));
  }
  return Status();
}

Status ReadConfig(std::string_view json, TokenizerParts& parts) {
  simdjson::dom::parser parser;
  COLIBRI_ASSIGN_OR_RETURN(const JsonObject config, ParseRoot(parser, json));
  SpecialTokenIds& ids = parts.special_ids;
  COLIBRI_RETURN_IF_ERROR(ReadNamedToken(config, "bos_token", parts.vocab, ids.bos));
  COLIBRI_RETURN_IF_ERROR(ReadNamedToken(config, "eos_token", parts.vocab, ids.eos));
  COLIBRI_RETURN_IF_ERROR(ReadNamedToken(config, "unk_token", parts.vocab, ids.unk));
  COLIBRI_RETURN_IF_ERROR(ReadNamedToken(config, "pad_token", parts.vocab, ids.pad));
  if (config.Find("add_bos_token")) {
    COLIBRI_ASSIGN_OR_RETURN(parts.add_bos, config.Bool("add_bos_token", false));
  }
  if (config.Find("add_eos_token")) {
    COLIBRI_ASSIGN_OR_RETURN(parts.add_eos, config.Bool("add_eos_token", false));
  }
  return ReadChatTemplate(config, parts.chat_template);
}

Result<std::unique_ptr<Tokenizer>> Load(std::string_view tokenizer_json,
                                        std::string_view config_json) {
  simdjson::dom::parser parser;
  COLIBRI_ASSIGN_OR_RETURN(const JsonObject root, ParseRoot(parser, tokenizer_json));
  auto parts = std::make_unique<TokenizerParts>();
  const UnicodeProperties properties;
  bool byte_level = false;
  COLIBRI_RETURN_IF_ERROR(ReadNormalizer(root, properties, *parts));
  COLIBRI_RETURN_IF_ERROR(ReadPreTokenizer(root, properties, *parts, byte_level));
  COLIBRI_RETURN_IF_ERROR(ReadModel(root, byte_level, *parts));
  // Without a pre-tokenizer a whole text is one piece. Where no merge reaches across the start of a
  // word, cutting there gives the same ids from pieces that repeat.
  constexpr std::string_view kMark = "\xE2\x96\x81";
  if (parts->pre_tokenizer.empty() && !byte_level && !parts->model->options().ignore_merges &&
      parts->model->SplitsBefore(kMark, parts->vocab)) {
    parts->pre_tokenizer.push_back(MakeCutBeforeStep(std::string(kMark)));
  }
  COLIBRI_RETURN_IF_ERROR(ReadAddedTokens(root, *parts));
  COLIBRI_RETURN_IF_ERROR(ReadPostProcessor(root, *parts));
  COLIBRI_RETURN_IF_ERROR(ReadDecoder(root, *parts));
  const int32_t unk = parts->model->options().unk_id;
  if (unk != StringTable::kNone) parts->special_ids.unk = unk;
  if (!config_json.empty()) {
    Status status = ReadConfig(config_json, *parts);
    if (!status.ok()) return std::move(status).WithContext("tokenizer_config.json");
  }
  return std::make_unique<Tokenizer>(std::move(parts));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> LoadTokenizerJson(std::string_view tokenizer_json,
                                                     std::string_view tokenizer_config_json,
                                                     std::string name) {
  Result<std::unique_ptr<Tokenizer>> tokenizer = Load(tokenizer_json, tokenizer_config_json);
  if (!tokenizer.ok()) return std::move(tokenizer).status().WithContext(name);
  return tokenizer;
}

}  // namespace colibri
