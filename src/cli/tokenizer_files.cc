#include "cli/tokenizer_files.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/strings.h"
#include "cli/console.h"
#include "engine/load_tokenizer.h"

namespace colibri::cli {

namespace fs = std::filesystem;

Result<std::string> ReadTextFile(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return InvalidArgument(StrCat(path, ": is a folder"));
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    const std::string message = StrCat(path, ": ", std::strerror(errno));
    return errno == ENOENT ? NotFound(message) : IoError(message);
  }
  std::string text;
  std::array<char, 1 << 16> block;
  while (in.read(block.data(), block.size()), in.gcount() > 0) {
    text.append(block.data(), static_cast<size_t>(in.gcount()));
    if (text.size() > kMaxInputBytes) {
      return ResourceExhausted(StrCat(path, ": is longer than ", FormatBytes(kMaxInputBytes)));
    }
  }
  if (in.bad()) return IoError(StrCat(path, ": ", std::strerror(errno)));
  return text;
}

Result<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path, const Log& log) {
  std::error_code error;
  fs::path file = path;
  if (fs::is_directory(file, error)) file /= "tokenizer.json";
  if (file.extension() == ".json" && fs::exists(file, error)) {
    COLIBRI_ASSIGN_OR_RETURN(const std::string tokenizer, ReadTextFile(file.string()));
    const fs::path config_path = file.parent_path() / "tokenizer_config.json";
    std::string config;
    if (fs::exists(config_path, error)) {
      COLIBRI_ASSIGN_OR_RETURN(config, ReadTextFile(config_path.string()));
    }
    return LoadTokenizerJson(tokenizer, config, file.string());
  }
  COLIBRI_ASSIGN_OR_RETURN(const ModelFiles files, OpenModelFiles(path, log));
  return LoadTokenizer(files);
}

}  // namespace colibri::cli
