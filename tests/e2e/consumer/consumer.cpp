// The same as consumer.c, with the C++ wrapper.
//   consumer_cpp MODEL PROMPT
#include <colibri/engine.hpp>
#include <iostream>
#include <string_view>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  auto engine = colibri::api::Engine::Load(argv[1]);
  if (!engine) {
    std::cerr << engine.error().message << "\n";
    return 1;
  }
  const auto prompt = engine->Tokenize(argv[2]);
  auto session = engine->NewSession();
  if (!prompt || !session) return 1;
  colibri::api::GenerateOptions options;
  options.max_new_tokens = 8;
  options.on_delta = [](std::string_view text, int32_t) {
    std::cout << text;
    return true;
  };
  const auto answer = session->Generate(*prompt, options);
  std::cout << "\n";
  return answer ? 0 : 1;
}
