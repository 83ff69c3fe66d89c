// support/assets.h - where tests find the big test data that is not in the repository.
#pragma once

#include <string>

namespace colibri::testing {

// The folder of COLIBRI_ASSETS, or ../shared beside the source tree; empty when neither exists.
std::string AssetsDir();

// The source tree's own folder.
std::string SourceDir();

// The whole of a file; fails the running test when it can't be read.
std::string ReadFile(const std::string& path);

}  // namespace colibri::testing

// Skips the running test, saying why, when the assets are not there.
#define COLIBRI_REQUIRE_ASSETS()                                                              \
  do {                                                                                        \
    if (::colibri::testing::AssetsDir().empty())                                              \
      GTEST_SKIP() << "no test assets: set COLIBRI_ASSETS to the folder that holds goldens/"; \
  } while (false)
