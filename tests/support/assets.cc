#include "support/assets.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace colibri::testing {

std::string AssetsDir() {
  const char* from_environment = std::getenv("COLIBRI_ASSETS");
  const std::filesystem::path dir =
      from_environment != nullptr ? std::filesystem::path(from_environment)
                                  : std::filesystem::path(COLIBRI_SOURCE_DIR) / ".." / "shared";
  std::error_code error;
  return std::filesystem::is_directory(dir / "goldens", error) ? dir.string() : std::string();
}

std::string SourceDir() {
  return COLIBRI_SOURCE_DIR;
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << "cannot read " << path;
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

}  // namespace colibri::testing
