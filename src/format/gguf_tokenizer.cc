#include "format/gguf_tokenizer.h"

#include <limits>

#include "base/strings.h"

namespace colibri {
namespace {

Status ReadText(const Metadata& metadata, std::string_view key, std::string& out) {
  COLIBRI_ASSIGN_OR_RETURN(auto value, metadata.GetString(key));
  if (value) out = std::move(*value);
  return {};
}

Status ReadTexts(const Metadata& metadata, std::string_view key, std::vector<std::string>& out) {
  COLIBRI_ASSIGN_OR_RETURN(auto value, metadata.GetStrings(key));
  if (value) out = std::move(*value);
  return {};
}

Status ReadTypes(const Metadata& metadata, std::string_view key, std::vector<int32_t>& out) {
  COLIBRI_ASSIGN_OR_RETURN(const auto value, metadata.GetInts(key));
  if (!value) return {};
  out.reserve(value->size());
  for (const int64_t type : *value) {
    if (type < std::numeric_limits<int32_t>::min() || type > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument(StrCat(metadata.origin(), ": key ", key, ": entry ", out.size(),
                                    " is ", type, ", which is no token type"));
    }
    out.push_back(static_cast<int32_t>(type));
  }
  return {};
}

Status ReadScores(const Metadata& metadata, std::string_view key, std::vector<float>& out) {
  COLIBRI_ASSIGN_OR_RETURN(const auto value, metadata.GetDoubles(key));
  if (!value) return {};
  out.reserve(value->size());
  for (const double score : *value) out.push_back(static_cast<float>(score));
  return {};
}

Status ReadId(const Metadata& metadata, std::string_view key, std::optional<uint64_t>& out) {
  COLIBRI_ASSIGN_OR_RETURN(const auto value, metadata.GetInt(key));
  if (!value) return {};
  if (*value < 0) {
    return InvalidArgument(StrCat(metadata.origin(), ": key ", key, " is ", *value,
                                  "; a token's id should not be negative"));
  }
  out = static_cast<uint64_t>(*value);
  return {};
}

Status ReadFlag(const Metadata& metadata, std::string_view key, std::optional<bool>& out) {
  COLIBRI_ASSIGN_OR_RETURN(out, metadata.GetBool(key));
  return {};
}

}  // namespace

Result<GgufVocab> ReadGgufVocab(const Metadata& metadata) {
  GgufVocab vocab;
  vocab.source = metadata.origin();
  COLIBRI_RETURN_IF_ERROR(ReadText(metadata, "tokenizer.ggml.model", vocab.model));
  COLIBRI_RETURN_IF_ERROR(ReadText(metadata, "tokenizer.ggml.pre", vocab.pre));
  COLIBRI_RETURN_IF_ERROR(ReadTexts(metadata, "tokenizer.ggml.tokens", vocab.tokens));
  COLIBRI_RETURN_IF_ERROR(ReadTypes(metadata, "tokenizer.ggml.token_type", vocab.token_types));
  COLIBRI_RETURN_IF_ERROR(ReadScores(metadata, "tokenizer.ggml.scores", vocab.scores));
  COLIBRI_RETURN_IF_ERROR(ReadTexts(metadata, "tokenizer.ggml.merges", vocab.merges));
  COLIBRI_RETURN_IF_ERROR(ReadId(metadata, "tokenizer.ggml.bos_token_id", vocab.bos_id));
  COLIBRI_RETURN_IF_ERROR(ReadId(metadata, "tokenizer.ggml.eos_token_id", vocab.eos_id));
  COLIBRI_RETURN_IF_ERROR(ReadId(metadata, "tokenizer.ggml.eot_token_id", vocab.eot_id));
  COLIBRI_RETURN_IF_ERROR(ReadId(metadata, "tokenizer.ggml.unknown_token_id", vocab.unk_id));
  COLIBRI_RETURN_IF_ERROR(ReadId(metadata, "tokenizer.ggml.padding_token_id", vocab.pad_id));
  COLIBRI_RETURN_IF_ERROR(ReadFlag(metadata, "tokenizer.ggml.add_bos_token", vocab.add_bos));
  COLIBRI_RETURN_IF_ERROR(ReadFlag(metadata, "tokenizer.ggml.add_eos_token", vocab.add_eos));
  COLIBRI_RETURN_IF_ERROR(
      ReadFlag(metadata, "tokenizer.ggml.add_space_prefix", vocab.add_space_prefix));
  return vocab;
}

}  // namespace colibri
