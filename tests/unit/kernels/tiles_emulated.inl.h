// AMX's tile registers in plain C++, as Intel's manual describes the instructions (Software
// Developer's Manual, volume 2: LDTILECFG, TILELOADD, TDPBSSD, TDPBF16PS, TILESTORED). Included
// inside an anonymous namespace, after tile_shapes.inl.h; the same names as
// kernels/cpu/isa/tiles_amx.inl.h. What the CPU answers with a fault traps.

class Tiles {
 public:
  Tiles() = default;
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  void Configure(const TileShapes& shapes) {
    Require(reinterpret_cast<uintptr_t>(&shapes) % 64 ==
            0);  // not the CPU's demand, but our promise
    Require(shapes.palette == 1 && shapes.start_row == 0);
    for (const uint8_t byte : shapes.reserved) Require(byte == 0);
    for (int i = 0; i < 16; ++i) {
      const bool is_there = i < 8;
      Require(shapes.row_bytes[i] <= (is_there ? 64 : 0) && shapes.rows[i] <= (is_there ? 16 : 0));
      Require((shapes.row_bytes[i] == 0) == (shapes.rows[i] == 0));
    }
    shapes_ = shapes;
    is_configured_ = true;
    for (auto& tile : tiles_) tile = {};
  }
  template <int kTile>
  void Zero() {
    RequireTile(kTile);
    tiles_[kTile] = {};
  }
  template <int kTile>
  void Load(const void* p, int64_t stride) {
    RequireTile(kTile);
    Tile tile = {};
    for (int r = 0; r < shapes_.rows[kTile]; ++r) {
      std::memcpy(tile.byte[r], static_cast<const uint8_t*>(p) + r * stride,
                  shapes_.row_bytes[kTile]);
    }
    tiles_[kTile] = tile;
  }
  template <int kTile>
  void Store(void* p, int64_t stride) {
    RequireTile(kTile);
    for (int r = 0; r < shapes_.rows[kTile]; ++r) {
      std::memcpy(static_cast<uint8_t*>(p) + r * stride, tiles_[kTile].byte[r],
                  shapes_.row_bytes[kTile]);
    }
  }

  template <int kSum, int kA, int kB>
  void AddInt8() {
    RequireProduct(kSum, kA, kB);
    for (int m = 0; m < shapes_.rows[kSum]; ++m) {
      for (int n = 0; n < shapes_.row_bytes[kSum] / 4; ++n) {
        int32_t sum = Element<int32_t>(kSum, m, n);
        for (int k = 0; k < shapes_.row_bytes[kA] / 4; ++k) {
          for (int i = 0; i < 4; ++i)
            sum += Element<int8_t>(kA, m, 4 * k + i) * Element<int8_t>(kB, k, 4 * n + i);
        }
        SetElement(kSum, m, n, sum);
      }
    }
    ClearBehind(kSum);
  }

  template <int kSum, int kA, int kB>
  void AddBf16() {
    RequireProduct(kSum, kA, kB);
    for (int m = 0; m < shapes_.rows[kSum]; ++m) {
      for (int n = 0; n < shapes_.row_bytes[kSum] / 4; ++n) {
        float chain[2] = {0, 0};  // of the even columns and of the odd ones
        for (int k = 0; k < shapes_.row_bytes[kA] / 4; ++k) {
          for (int i = 0; i < 2; ++i) {
            const float a = FromBf16(Element<uint16_t>(kA, m, 2 * k + i));
            const float b = FromBf16(Element<uint16_t>(kB, k, 2 * n + i));
            chain[i] = Flush(__builtin_fmaf(Flush(a), Flush(b), chain[i]));
          }
        }
        const float added = Flush(chain[0] + chain[1]);
        SetElement(kSum, m, n, Flush(Flush(Element<float>(kSum, m, n)) + added));
      }
    }
    ClearBehind(kSum);
  }

 private:
  struct Tile {
    uint8_t byte[16][64];
  };

  static void Require(bool holds) {
    if (!holds) __builtin_trap();
  }
  void RequireTile(int tile) const { Require(is_configured_ && shapes_.rows[tile] > 0); }
  void RequireProduct(int sum, int a, int b) const {
    Require(sum != a && sum != b && a != b);
    for (const int tile : {sum, a, b}) {
      RequireTile(tile);
      Require(shapes_.row_bytes[tile] % 4 == 0);
    }
    Require(shapes_.row_bytes[sum] == shapes_.row_bytes[b]);
    Require(shapes_.rows[sum] == shapes_.rows[a]);
    Require(shapes_.row_bytes[a] / 4 == shapes_.rows[b]);
  }
  template <typename T>
  T Element(int tile, int row, int i) const {
    T out;
    std::memcpy(&out, tiles_[tile].byte[row] + static_cast<size_t>(i) * sizeof(T), sizeof(T));
    return out;
  }
  template <typename T>
  void SetElement(int tile, int row, int i, T value) {
    std::memcpy(tiles_[tile].byte[row] + static_cast<size_t>(i) * sizeof(T), &value, sizeof(T));
  }
  // An instruction that writes a tile clears what its shape leaves out.
  void ClearBehind(int tile) {
    for (int r = 0; r < 16; ++r) {
      const int from = r < shapes_.rows[tile] ? shapes_.row_bytes[tile] : 0;
      for (int i = from; i < 64; ++i) tiles_[tile].byte[r][i] = 0;
    }
  }
  static float FromBf16(uint16_t bits) {
    const uint32_t word = static_cast<uint32_t>(bits) << 16;
    float out;
    std::memcpy(&out, &word, sizeof(out));
    return out;
  }
  // A denormal number becomes a zero of its sign.
  static float Flush(float x) {
    return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x;
  }

  TileShapes shapes_;
  bool is_configured_ = false;
  Tile tiles_[8] = {};
};
