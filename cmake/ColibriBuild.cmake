# Compiler settings and the two functions that every folder uses.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(colibri_flags INTERFACE)
# -ffp-contract=off: a sum has one order and one rounding, whatever the compiler; kernels say FMA where they mean it.
target_compile_options(colibri_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror -ffp-contract=off)
target_include_directories(colibri_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
if(COLIBRI_SANITIZE)
  target_compile_options(colibri_flags INTERFACE
    -fsanitize=${COLIBRI_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  target_link_options(colibri_flags INTERFACE -fsanitize=${COLIBRI_SANITIZE})
endif()
# The fuzz targets steer by the coverage of the libraries.
if(COLIBRI_BUILD_FUZZERS AND COLIBRI_BUILD_TESTS AND COLIBRI_SANITIZE MATCHES "address"
   AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(COLIBRI_FUZZ_FLAGS -fsanitize=fuzzer-no-link)
  target_compile_options(colibri_flags INTERFACE ${COLIBRI_FUZZ_FLAGS})
endif()

# colibri_module(NAME SOURCES a.cc ... DEPS other modules or libraries ...)
# A folder of src/ as the static library colibri_NAME.
function(colibri_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(colibri_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(colibri_${name} PUBLIC colibri_flags ${ARG_DEPS})
endfunction()
