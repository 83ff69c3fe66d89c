// kernels/cpu/isa/tiles_amx.inl.h - AMX's tile registers.
// Included inside an anonymous namespace, after tile_shapes.inl.h.
//
// By assembly: g++ 12's intrinsics want the number of a tile spelt out, which no template can do,
// and do not tell the compiler that loading a tile reads memory.

// The tiles of this thread, from Configure to the end of the object's life. Whoever gives them back
// spares the system 8 KB at each switch of threads, and a configuration is a load of 64 bytes: both
// happen once or twice in a call that reads a panel at the least.
class Tiles {
 public:
  Tiles() = default;
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
  ~Tiles() { __asm__ volatile("tilerelease"); }

  // Clears all tiles.
  void Configure(const TileShapes& shapes) { __asm__ volatile("ldtilecfg %0" : : "m"(shapes)); }
  template <int kTile>
  [[gnu::always_inline]] void Zero() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  // Rows `stride` bytes apart.
  template <int kTile>
  [[gnu::always_inline]] void Load(const void* p, int64_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2"
                     :
                     : "r"(p), "r"(stride), "i"(kTile)
                     : "memory");
  }
  template <int kTile>
  [[gnu::always_inline]] void Store(void* p, int64_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)"
                     :
                     : "r"(p), "r"(stride), "i"(kTile)
                     : "memory");
  }
  // Sums of 32-bit integers: sum[m][n] += the four products of signed bytes of a[m][k] and b[k][n],
  // for all words k.
  template <int kSum, int kA, int kB>
  [[gnu::always_inline]] void AddInt8() {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  }
  // Sums of float32: the same with the two products of bfloat16.
  template <int kSum, int kA, int kB>
  [[gnu::always_inline]] void AddBf16() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  }
};
