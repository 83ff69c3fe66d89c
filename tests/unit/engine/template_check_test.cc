#include <gtest/gtest.h>

#include "engine/engine.h"
#include "support/assets.h"

namespace colibri {
namespace {

TEST(Engine, ARefusedChatTemplateCostsNoLoading) {
  EngineOptions options;
  bool loaded = false;
  std::string seen;
  options.load_progress = [&](uint64_t, uint64_t) { loaded = true; };
  options.check_chat_template = [&](const std::string& chat_template) {
    seen = chat_template;
    return Unsupported("not this one");
  };
  const auto engine =
      Engine::Create(testing::SourceDir() + "/models/nano/nano-q8_0.gguf", options, Log());
  EXPECT_EQ(engine.status().ToString(), "unsupported: not this one");
  EXPECT_NE(seen.find("<|im_start|>"), std::string::npos);
  EXPECT_FALSE(loaded);
}

}  // namespace
}  // namespace colibri
