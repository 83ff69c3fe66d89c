// Encodes a file with a tokenizer.json and prints JSON: seconds of processor time, the best of
// several runs. Usage: tokenizer_bench FOLDER_OR_TOKENIZER_JSON TEXT_FILE [RUNS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "text/tokenizer.h"

namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

// Processor time, so that other programs on the machine do not count.
double Seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s FOLDER_OR_TOKENIZER_JSON TEXT_FILE [RUNS]\n", argv[0]);
    return 2;
  }
  std::filesystem::path file = argv[1];
  if (std::filesystem::is_directory(file)) file /= "tokenizer.json";
  const std::string json = ReadFile(file);
  const std::string text = ReadFile(argv[2]);
  const int runs = argc > 3 ? std::max(1, std::atoi(argv[3])) : 5;
  const double load_begin = Seconds();
  const auto tokenizer = colibri::LoadTokenizerJson(json, "", file.string());
  const double load_s = Seconds() - load_begin;
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.status().ToString().c_str());
    return 1;
  }
  double encode_s = 1e30, decode_s = 1e30;
  size_t n_ids = 0;
  for (int run = 0; run < runs; ++run) {
    const double begin = Seconds();
    const auto ids = tokenizer.value()->Encode(text);
    const double middle = Seconds();
    if (!ids.ok()) {
      std::fprintf(stderr, "%s\n", ids.status().ToString().c_str());
      return 1;
    }
    const std::string back = tokenizer.value()->Decode(ids.value());
    encode_s = std::min(encode_s, middle - begin);
    decode_s = std::min(decode_s, Seconds() - middle);
    n_ids = ids.value().size();
  }
  std::printf(
      "{\"bytes\": %zu, \"ids\": %zu, \"load_s\": %.4f, \"encode_s\": %.6f, "
      "\"decode_s\": %.6f}\n",
      text.size(), n_ids, load_s, encode_s, decode_s);
  return 0;
}
