# Warnings, sanitizers, linker and compiler cache: the same for every target.

option(BATON_EXTENSION "build the server extension" ON)
option(BATON_BENCH "build the benchmarks" OFF)
option(BATON_FUZZ "build the fuzz targets for libFuzzer; needs clang" OFF)
set(BATON_SANITIZE "" CACHE STRING "address, thread or empty")

# g++ 12 at -O3 takes "text" + std::string for overlapping memory (GCC bug 105651), hence -Wno-restrict.
add_library(baton_options INTERFACE)
target_compile_options(baton_options INTERFACE
  -Wall -Wextra -Wpedantic -Werror -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual -Woverloaded-virtual
  -Wno-restrict)
target_include_directories(baton_options INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)

if(BATON_SANITIZE)
  set(sanitizer_flags -fsanitize=${BATON_SANITIZE} -fno-omit-frame-pointer)
  if(BATON_SANITIZE STREQUAL "address")
    set(sanitizer_flags -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=all)
  endif()
  # With sanitizers the compiler takes parts of <regex> for uninitialized.
  target_compile_options(baton_options INTERFACE ${sanitizer_flags} -Wno-maybe-uninitialized)
  target_link_options(baton_options INTERFACE ${sanitizer_flags})
endif()

if(BATON_FUZZ)
  # libFuzzer is linked to the targets alone; the code that they try only reports where it has been. clang warns of other
  # things than g++, which the ordinary builds are for.
  set(fuzzer_flags -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(baton_options INTERFACE ${fuzzer_flags} -Wno-everything)
  target_link_options(baton_options INTERFACE ${fuzzer_flags})
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Make a static library for one room of the house: baton_room(name SOURCES ... USES ...)
function(baton_room name)
  cmake_parse_arguments(room "" "" "SOURCES;USES;PRIVATE_USES" ${ARGN})
  add_library(baton_${name} STATIC ${room_SOURCES})
  target_link_libraries(baton_${name} PUBLIC ${room_USES} PRIVATE baton_options ${room_PRIVATE_USES})
  target_include_directories(baton_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
endfunction()
