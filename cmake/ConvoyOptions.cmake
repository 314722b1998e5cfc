# Compiler settings shared by all targets of the project, as the interface target convoy_options.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()

find_program(CONVOY_CCACHE ccache)
if(CONVOY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CONVOY_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CONVOY_CCACHE})
endif()

add_library(convoy_options INTERFACE)
target_include_directories(convoy_options INTERFACE ${PROJECT_SOURCE_DIR})
# Designated initialisers leave fields at their defaults on purpose.
target_compile_options(convoy_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>)
# Contraction of a*b+c is off, so that the same source gives the same bits on machines with and without FMA.
target_compile_options(convoy_options INTERFACE
                       $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -ffp-contract=off>)
# GCC 13 and 14 take the value of an optional that is empty for one that is read.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  target_compile_options(convoy_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
endif()
# Newer compilers warn of more, and nobody's build fails for that.
if(CONVOY_WERROR AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15 AND
   NOT (CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13))
  target_compile_options(convoy_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>
                                                  $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
# Programs that read bytes from a network end at a broken bound instead of going on: checked calls of libc, guarded return
# addresses, and no table of addresses that can be written to. tests/house/hardening_test.sh looks for each in the programs.
option(CONVOY_HARDEN "Guard the optimised programs against broken bounds" ON)
if(CONVOY_HARDEN AND NOT CONVOY_SANITIZE)
  target_compile_options(convoy_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fstack-protector-strong>
                         $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3>)
  target_link_options(convoy_options INTERFACE LINKER:-z,relro,-z,now)
endif()
if(CONVOY_NATIVE)
  target_compile_options(convoy_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=native>)
endif()
if(CONVOY_SANITIZE)
  target_compile_options(convoy_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${CONVOY_SANITIZE}
                                                  -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(convoy_options INTERFACE -fsanitize=${CONVOY_SANITIZE})
  # These checks take half of GCC's time with sanitizers. Clang's fuzzers still check the alignment of foreign bytes,
  # and a null pointer ends the program without a check.
  target_compile_options(convoy_options INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-sanitize=null,alignment>)
  # With sanitizers GCC 12 reports uninitialised values in its own <regex>, and reads beyond the end in std::vector::erase.
  target_compile_options(convoy_options INTERFACE "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized;-Wno-array-bounds;-Wno-stringop-overread>")
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16)
  target_compile_options(convoy_options INTERFACE -include ${PROJECT_SOURCE_DIR}/cmake/ClangShim.hpp)
endif()

# Headers that most sources include. A build from nothing parses them once for each group of targets with the same
# options, instead of once for each source. It is off by default: ccache then shares objects between
# checkouts, and a source that lacks an include does not compile.
option(CONVOY_PCH "Precompile common headers with GCC, for builds from nothing" OFF)
set(convoy_common_headers
    <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <deque> <filesystem>
    <fstream> <functional> <map> <memory> <mutex> <numeric> <optional> <set> <span> <sstream> <string> <thread> <utility>
    <vector> <fmt/format.h> <fmt/ranges.h>)

# convoy_precompile(TARGET [HEADERS...]): gives the target precompiled headers of its own, the common ones and HEADERS.
function(convoy_precompile target)
  if(CONVOY_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_precompile_headers(${target} PRIVATE ${convoy_common_headers} ${ARGN})
  endif()
endfunction()

# convoy_share_precompiled(TARGET OWNER): lets the target use the precompiled headers of OWNER. GCC warns and reads the text
# instead where the two differ in -fPIC, -fopenmp, sanitizers, -O0, or a macro that the headers look at.
function(convoy_share_precompiled target owner)
  if(CONVOY_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_precompile_headers(${target} REUSE_FROM ${owner})
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-error=invalid-pch>)
  endif()
endfunction()

# Sources that are compiled several in one parse the headers that they share once. It is off by default: a change of one source
# would compile the others again, and names in unnamed namespaces of the sources of a target must differ.
option(CONVOY_UNITY "Compile several sources of a target in one, for builds from nothing" OFF)
set(convoy_unity_sources 8)
# The fuzzers have no precompiled headers, so fewer and larger sources are better there.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(convoy_unity_sources 16)
endif()

# convoy_unite(TARGET): compiles the target's sources several in one. CMake leaves out sources with options of their own.
function(convoy_unite target)
  if(CONVOY_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${convoy_unity_sources})
    # GCC takes a type in a source that another source includes for one of a header.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# Compiling takes half the time so; tests of what the compiler optimises, and measurements, need the whole.
option(CONVOY_HASTY "Optimise less than the build type says: Release with -O1, RelWithDebInfo with -O0" OFF)
if(CONVOY_HASTY)
  target_compile_options(convoy_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:$<$<CONFIG:Release>:-O1>$<$<CONFIG:RelWithDebInfo>:-O0>>)
endif()

# convoy_once(TARGET): compiles the target with -O1 where others have -O3, which saves a third of the time. It is for code that
# runs once for a command or a file: command lines, readers, reports.
function(convoy_once target)
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
endfunction()

# The folders with the innermost loops do without the standard library's checks of indices, and so need precompiled headers
# of their own.
set(convoy_unchecked convoy_kernels convoy_cl convoy_exchange)

# convoy_program(TARGET): the options of a program's own source, which reads a command line.
function(convoy_program target)
  convoy_once(${target})
  if(CONVOY_HARDEN)
    target_compile_definitions(${target} PRIVATE _GLIBCXX_ASSERTIONS)
  endif()
  convoy_share_precompiled(${target} convoy_cli)
endfunction()

# convoy_library(NAME SOURCES...) adds the static library of one folder of the tree.
function(convoy_library name)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PUBLIC convoy_options)
  convoy_unite(${name})
  # Under a sanitizer the innermost loops alone take the time that optimising takes.
  if(CONVOY_SANITIZE AND name IN_LIST convoy_unchecked)
    target_compile_options(${name} PRIVATE -O1)
  endif()
  if(CONVOY_HARDEN AND NOT name IN_LIST convoy_unchecked)
    target_compile_definitions(${name} PRIVATE _GLIBCXX_ASSERTIONS)
  endif()
endfunction()

# convoy_folders(VARIABLE) sets VARIABLE to the folders of code, in the order of cmake/folders.txt.
function(convoy_folders variable)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/folders.txt)
  file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/folders.txt lines REGEX "^[a-z]+:")
  list(TRANSFORM lines REPLACE ":.*" "")
  set(${variable} ${lines} PARENT_SCOPE)
endfunction()
