#include "cli/default_model.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/strings.h"

namespace colibri::cli {

namespace fs = std::filesystem;

namespace {

Result<fs::path> ModelsFolder() {
  if (const char* named = std::getenv("COLIBRI_MODELS"); named != nullptr && *named != '\0') {
    return fs::path(named);
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return IoError(StrCat("/proc/self/exe: ", error.message()));
  return program.parent_path().parent_path() / "share" / "colibri" / "models";
}

}  // namespace

Result<std::string> FindDefaultModel() {
  COLIBRI_ASSIGN_OR_RETURN(const fs::path folder, ModelsFolder());
  const fs::path path = folder / kDefaultModel;
  std::error_code error;
  if (fs::exists(path, error)) return path.string();
  return NotFound(StrCat("no model was named, and the default model is not at ", path.string(),
                         "; name a model, or set COLIBRI_MODELS to the folder that holds ",
                         kDefaultModel));
}

Result<std::string> ModelOrDefault(const std::string& named) {
  if (!named.empty()) return named;
  return FindDefaultModel();
}

}  // namespace colibri::cli
