#include <gtest/gtest.h>

#include "text/byte_alphabet.h"
#include "text/detokenize.h"
#include "text/unicode.h"
#include "text_test_support.h"

namespace colibri {
namespace {

using testing::EncodeOk;
using testing::LoadJson;

// A byte-level tokenizer: bytes 0..255 are ids 0..255, then the given tokens.
std::string ByteLevelJson(const std::string& tokens, const std::string& merges,
                          const std::string& added = "", const std::string& more = "") {
  std::string vocab;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    std::string token;
    AppendUtf8(ByteToCodePoint(static_cast<uint8_t>(byte)), token);
    if (token == "\"" || token == "\\") token = "\\" + token;
    vocab += (byte == 0 ? "\"" : ",\"") + token + "\":" + std::to_string(byte);
  }
  return R"({"added_tokens":[)" + added +
         R"(],"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},)" +
         R"("decoder":{"type":"ByteLevel"},)" + more + R"("model":{"type":"BPE","vocab":{)" +
         vocab + tokens + R"(},"merges":[)" + merges + "]}}";
}

std::string Added(int id, const std::string& content, const std::string& flags = "") {
  return "{\"id\":" + std::to_string(id) + ",\"content\":\"" + content + "\"" + flags + "}";
}

TEST(TokenizerJson, MergesInBothSpellings) {
  for (const std::string merges : {R"("a b","ab c")", R"(["a","b"],["ab","c"])"}) {
    const auto tokenizer = LoadJson(ByteLevelJson(R"(,"ab":256,"abc":257)", merges));
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_EQ(EncodeOk(*tokenizer, "abcab"), (std::vector<int32_t>{257, 256}));
  }
}

TEST(TokenizerJson, EarlierMergesComeFirstAndThenFromTheLeft) {
  const auto tokenizer =
      LoadJson(ByteLevelJson(R"(,"bc":256,"ab":257,"aa":258)", R"("b c","a b","a a")"));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(EncodeOk(*tokenizer, "abc"), (std::vector<int32_t>{'a', 256}));
  EXPECT_EQ(EncodeOk(*tokenizer, "aaa"), (std::vector<int32_t>{258, 'a'}));
}

// The short and the long way of merging are different code.
TEST(TokenizerJson, LongPiecesMergeAsShortOnesDo) {
  const auto tokenizer = LoadJson(
      ByteLevelJson(R"(,"bc":256,"ab":257,"aa":258,"aabc":259)", R"("b c","a b","a a","aa bc")"));
  ASSERT_NE(tokenizer, nullptr);
  const std::vector<int32_t> once = EncodeOk(*tokenizer, "aabcaabab");
  std::string text;
  std::vector<int32_t> expected;
  for (int i = 0; i < 100; ++i) {
    text += "aabcaababz";
    expected.insert(expected.end(), once.begin(), once.end());
    expected.push_back('z');
  }
  EXPECT_EQ(EncodeOk(*tokenizer, text), expected);
}

TEST(TokenizerJson, WhiteSpaceSplitsBeforeTheLastSpace) {
  const auto tokenizer = LoadJson(
      ByteLevelJson(",\"\u0120\u0120\":256,\"\u0120b\":257", "\"\u0120 \u0120\",\"\u0120 b\""));
  ASSERT_NE(tokenizer, nullptr);
  // "a", "  \n", " b": the run of white space leaves its last space to the word.
  EXPECT_EQ(EncodeOk(*tokenizer, "a  \n b"), (std::vector<int32_t>{'a', 256, '\n', 257}));
}

TEST(TokenizerJson, AFourByteCharacterComesOutWholeOrNotAtAll) {
  const auto tokenizer = LoadJson(ByteLevelJson("", ""));
  ASSERT_NE(tokenizer, nullptr);
  StreamDecoder stream(*tokenizer);
  EXPECT_EQ(stream.Push(0xF0), "");
  EXPECT_EQ(stream.Push(0x9F), "");
  EXPECT_EQ(stream.Push(0x98), "");
  EXPECT_EQ(stream.Push(0x80), "\xF0\x9F\x98\x80");
  EXPECT_EQ(stream.Push(0xF0), "");
  EXPECT_EQ(stream.Push(0x9F), "");
  EXPECT_EQ(stream.Push('x'), "\xEF\xBF\xBDx");
  EXPECT_EQ(stream.Push(0xE2), "");
  EXPECT_EQ(stream.Finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.Push('y'), "y");  // a new text
}

TEST(TokenizerJson, AddedTokensTakeWhiteSpaceAndRespectWords) {
  const auto tokenizer = LoadJson(ByteLevelJson(
      "", "",
      Added(256, "<l>", R"(,"lstrip":true)") + "," + Added(257, "<r>", R"(,"rstrip":true)") + "," +
          Added(258, "cat", R"(,"single_word":true)") + "," + Added(259, "<l><r>")));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(EncodeOk(*tokenizer, "a  <l> b"), (std::vector<int32_t>{'a', 256, ' ', 'b'}));
  EXPECT_EQ(EncodeOk(*tokenizer, "a <r>  b"), (std::vector<int32_t>{'a', ' ', 257, 'b'}));
  EXPECT_EQ(EncodeOk(*tokenizer, "cat-"), (std::vector<int32_t>{258, '-'}));
  EXPECT_EQ(EncodeOk(*tokenizer, "cats"), (std::vector<int32_t>{'c', 'a', 't', 's'}));
  EXPECT_EQ(EncodeOk(*tokenizer, "<l><r>"), (std::vector<int32_t>{259}));  // the longest wins
}

TEST(TokenizerJson, NormalizedTokensAreFoundInNormalizedText) {
  const auto tokenizer = LoadJson(ByteLevelJson("", "",
                                                Added(256, "<X>", R"(,"normalized":true)") + "," +
                                                    Added(257, "<Y>", R"(,"normalized":false)"),
                                                R"("normalizer":{"type":"Lowercase"},)"));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(EncodeOk(*tokenizer, "<x><X>"), (std::vector<int32_t>{256, 256}));
  EXPECT_EQ(EncodeOk(*tokenizer, "<y><Y>"), (std::vector<int32_t>{'<', 'y', '>', 257}));
}

TEST(TokenizerJson, TheTemplatePutsTokensAroundTheText) {
  const auto tokenizer = LoadJson(ByteLevelJson(
      "", "", Added(256, "<s>", R"(,"special":true)"),
      R"("post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel"},)"
      R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},)"
      R"({"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"<s>","type_id":0}}],)"
      R"("pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[256],"tokens":["<s>"]}}}]},)"));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(EncodeOk(*tokenizer, "a"), (std::vector<int32_t>{256, 'a', 256}));
  EXPECT_EQ(EncodeOk(*tokenizer, "a", {.add_special_tokens = false}), (std::vector<int32_t>{'a'}));
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{256, 'a', 256}, true), "a");
}

TEST(TokenizerJson, ByteFallbackSpellsUnknownCharacters) {
  std::string vocab = R"("<unk>":0,"▁":1,"a":2,"▁a":3)";
  for (int byte = 0; byte < 256; ++byte) {
    char token[16];
    std::snprintf(token, sizeof(token), ",\"<0x%02X>\":%d", byte, byte + 4);
    vocab += token;
  }
  const auto tokenizer = LoadJson(
      R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},)"
      R"({"type":"Replace","pattern":{"String":" "},"content":"▁"}]},)"
      R"("decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},)"
      R"("content":" "},{"type":"ByteFallback"},{"type":"Fuse"},)"
      R"({"type":"Strip","content":" ","start":1,"stop":0}]},)"
      R"("model":{"type":"BPE","byte_fallback":true,"unk_token":"<unk>","vocab":{)" +
      vocab + R"(},"merges":["▁ a"]}})");
  ASSERT_NE(tokenizer, nullptr);
  const std::vector<int32_t> ids = EncodeOk(*tokenizer, "a é a");
  EXPECT_EQ(ids, (std::vector<int32_t>{3, 1, 0xC3 + 4, 0xA9 + 4, 3}));
  EXPECT_EQ(tokenizer->Decode(ids), "a é a");
  // One bad byte turns every byte of its run into U+FFFD.
  const std::vector<int32_t> bad = {2, 0xC3 + 4, 0xA9 + 4, 0xFF + 4, 2};
  EXPECT_EQ(tokenizer->Decode(bad),
            "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(tokenizer->IdToBytes(0xC3 + 4), "\xC3");
  EXPECT_EQ(tokenizer->IdToBytes(3), " a");
}

TEST(TokenizerJson, UnknownIdsDecodeToNothing) {
  const auto tokenizer = LoadJson(ByteLevelJson("", ""));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{'a', -1, 100000, 'b', INT32_MIN}), "ab");
}

TEST(TokenizerJson, BadUtf8IsRefusedWithItsOffset) {
  const auto tokenizer = LoadJson(ByteLevelJson("", ""));
  ASSERT_NE(tokenizer, nullptr);
  for (const std::string_view text : {"abc\xFF", "abc\xC3", "abc\xED\xA0\x80", "abc\xC0\x80"}) {
    const auto ids = tokenizer->Encode(text);
    ASSERT_FALSE(ids.ok());
    EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(ids.status().message().find("offset 3"), std::string::npos);
  }
}

TEST(TokenizerJson, HugeNumbersInTheConfigAreNoError) {
  const auto tokenizer =
      LoadJson(ByteLevelJson("", "", Added(256, "<s>", R"(,"special":true)")),
               R"({"model_max_length":1000000000000000019884624838656,"x":1.25,"y":"123456789)"
               R"(01234567890123","bos_token":{"content":"<s>"},"add_bos_token":true})");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->special_ids().bos, 256);
  EXPECT_EQ(tokenizer->add_bos(), true);
}

struct BadFile {
  std::string json;
  StatusCode code;
  std::string says;
};

TEST(TokenizerJson, BrokenFilesAreRefusedByName) {
  const std::string deep(2000, '[');
  const std::vector<BadFile> files = {
      {"", StatusCode::kCorruptData, "not valid JSON"},
      {"[]", StatusCode::kCorruptData, "expected an object"},
      {"{\"model\":" + deep, StatusCode::kCorruptData, "not valid JSON"},
      {"{}", StatusCode::kCorruptData, "model: missing"},
      {R"({"model":{"type":"Unigram"}})", StatusCode::kUnsupported, "'Unigram'"},
      {R"({"model":{"type":"BPE","merges":[]}})", StatusCode::kCorruptData, "model.vocab: missing"},
      {R"({"model":{"vocab":{},"merges":[]}})", StatusCode::kCorruptData, "model.vocab: empty"},
      {R"({"model":{"vocab":[1],"merges":[]}})", StatusCode::kCorruptData, "expected an object"},
      {R"({"model":{"vocab":{"a":-1},"merges":[]}})", StatusCode::kCorruptData, "id of 'a'"},
      {R"({"model":{"vocab":{"a":4294967296},"merges":[]}})", StatusCode::kCorruptData, "'a'"},
      {R"({"model":{"vocab":{"a":99999999},"merges":[]}})", StatusCode::kCorruptData, "'a'"},
      {R"({"model":{"vocab":{"a":"0"},"merges":[]}})", StatusCode::kCorruptData, "'a'"},
      {R"({"model":{"vocab":{"a":0,"b":0},"merges":[]}})", StatusCode::kCorruptData, "'b'"},
      {R"({"model":{"vocab":{"a":0,"a":1},"merges":[]}})", StatusCode::kCorruptData, "'a'"},
      {R"({"model":{"vocab":{"a":0}}})", StatusCode::kCorruptData, "model.merges: missing"},
      {R"({"model":{"vocab":{"a":0},"merges":["a b"]}})", StatusCode::kCorruptData, "'b'"},
      {R"({"model":{"vocab":{"a":0},"merges":["a a"]}})", StatusCode::kCorruptData, "'aa'"},
      {R"({"model":{"vocab":{"a":0},"merges":["a"]}})", StatusCode::kCorruptData, "merges[0]"},
      {R"({"model":{"vocab":{"a":0},"merges":[["a"]]}})", StatusCode::kCorruptData, "merges[0]"},
      {R"({"model":{"vocab":{"a":0},"merges":[1]}})", StatusCode::kCorruptData, "merges[0]"},
      {R"({"model":{"vocab":{"a":0},"merges":[],"unk_token":"u"}})", StatusCode::kCorruptData,
       "unk_token"},
      {R"({"model":{"vocab":{"a":0},"merges":[],"dropout":0.5}})", StatusCode::kUnsupported,
       "dropout"},
      {R"({"model":{"vocab":{"a":0},"merges":[]},"added_tokens":[{"id":1}]})",
       StatusCode::kCorruptData, "added_tokens[0].content"},
      {R"({"model":{"vocab":{"a":0},"merges":[]},"added_tokens":[{"id":-5,"content":"x"}]})",
       StatusCode::kCorruptData, "'x'"},
      {R"({"model":{"vocab":{"a":0},"merges":[]},"added_tokens":[{"id":0,"content":"x"}]})",
       StatusCode::kCorruptData, "that of 'a'"},
      {R"({"model":{"vocab":{"a":0},"merges":[]},"added_tokens":[{"id":3,"content":"a"}]})",
       StatusCode::kCorruptData, "'a'"},
      {R"({"normalizer":{"type":"Precompiled"}})", StatusCode::kUnsupported, "'Precompiled'"},
      {R"({"pre_tokenizer":{"type":"Magic"}})", StatusCode::kUnsupported, "'Magic'"},
      {R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?<=a)b"},"behavior":"Isolated"}})",
       StatusCode::kUnsupported, "(?<=a)b"},
      {R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"}})",
       StatusCode::kInvalidArgument, "offset"},
      {R"({"model":{"vocab":{"a":0},"merges":[]},"decoder":{"type":"CTC"}})",
       StatusCode::kUnsupported, "'CTC'"},
      {R"({"model":{"vocab":{"a":0},"merges":[]},"post_processor":{"type":"New"}})",
       StatusCode::kUnsupported, "'New'"},
  };
  for (const BadFile& file : files) {
    const auto tokenizer = LoadTokenizerJson(file.json, "", "dir/tokenizer.json");
    ASSERT_FALSE(tokenizer.ok()) << file.json.substr(0, 200);
    EXPECT_EQ(tokenizer.status().code(), file.code) << tokenizer.status().ToString();
    EXPECT_NE(tokenizer.status().message().find(file.says), std::string::npos)
        << tokenizer.status().ToString();
    EXPECT_TRUE(tokenizer.status().message().starts_with("dir/tokenizer.json: "));
  }
}

TEST(TokenizerJson, SequencesNestedTooDeepAreRefused) {
  std::string json = R"({"type":"NFC"})";
  for (int i = 0; i < 20; ++i) json = R"({"type":"Sequence","normalizers":[)" + json + "]}";
  const auto tokenizer = LoadTokenizerJson("{\"normalizer\":" + json + "}", "", "t");
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kUnsupported);
}

TEST(TokenizerJson, SequencesOfManyPartsAreRefused) {
  std::string parts = R"({"type":"NFC"})";
  for (int i = 0; i < 1000; ++i) parts += R"(,{"type":"NFC"})";
  const auto tokenizer = LoadTokenizerJson(
      R"({"normalizer":{"type":"Sequence","normalizers":[)" + parts + "]}}", "", "t");
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace colibri
