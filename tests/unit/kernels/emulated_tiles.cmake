# The kernels for AMX's tiles with tiles of plain C++, compiled as the instruction sets are.
if(TARGET unit_kernels_test)
  target_sources(unit_kernels_test PRIVATE kernels/tiles_generic.cc)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    target_sources(unit_kernels_test PRIVATE kernels/tiles_avx512.cc)
    target_compile_definitions(unit_kernels_test PRIVATE COLIBRI_TEST_TILES_AVX512)
    set_source_files_properties(kernels/tiles_avx512.cc PROPERTIES COMPILE_OPTIONS
      "-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mprefer-vector-width=512;$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized;-Wno-uninitialized>")
  endif()
  target_include_directories(unit_kernels_test PRIVATE ${CMAKE_CURRENT_LIST_DIR}/..)
endif()
