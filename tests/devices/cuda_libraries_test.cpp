// How the libraries are found that the CUDA module needs. Two small libraries stand for module and cuBLAS.

#include "devices/cuda_libraries.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "core/error.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

/// The folder of the test program and of convoy-needing.so; in its folder `needed` lies libconvoy-needed.so.
fs::path here() { return fs::read_symlink("/proc/self/exe").parent_path(); }

class CudaLibraries : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(here() / "convoy-needing.so")) GTEST_SKIP() << "there is no convoy-needing.so beside this program";
  }
  const std::string needing_ = (here() / "convoy-needing.so").string();
};

// Before the next: what a process has loaded once, it finds.
TEST_F(CudaLibraries, NotFoundAreNamedWithTheFoldersThatWereSearched) {
  const fs::path empty = here();
  EXPECT_THAT([&] { open_with_libraries(needing_, {empty}); },
              testing::ThrowsMessage<Error>(AllOf(HasSubstr("needs libconvoy-needed.so"), HasSubstr(empty.string()),
                                                  HasSubstr("pip install nvidia-cublas"))));
  EXPECT_THAT([&] { open_with_libraries(needing_, {}); },
              testing::ThrowsMessage<Error>(HasSubstr("CONVOY_CUDA_LIBRARIES")));
}

TEST_F(CudaLibraries, AreTakenFromTheFirstFolderThatHasThem) {
  void* library = open_with_libraries(needing_, {here() / "nothing", here() / "needed"});
  const auto function = reinterpret_cast<int (*)()>(dlsym(library, "convoy_needing"));
  ASSERT_NE(function, nullptr);
  EXPECT_EQ(function(), 43);
}

TEST(CudaLibraryFolders, AreThoseNamedThenToolkitsThenPythonPackages) {
  const TemporaryFolder folder;
  const fs::path root(folder.path());
  const fs::path packages = root / "venv/lib/python3.12/site-packages/nvidia";
  for (const fs::path& made : {root / "named", root / "toolkit/lib64", packages / "cu13/lib", packages / "cudnn/lib"}) {
    fs::create_directories(made);
  }
  setenv("CONVOY_CUDA_LIBRARIES", ((root / "absent").string() + ":" + (root / "named").string()).c_str(), 1);
  setenv("CUDA_HOME", (root / "toolkit").c_str(), 1);
  setenv("VIRTUAL_ENV", (root / "venv").c_str(), 1);
  const std::vector<fs::path> found = cuda_library_folders();
  for (const char* name : {"CONVOY_CUDA_LIBRARIES", "CUDA_HOME", "VIRTUAL_ENV"}) unsetenv(name);
  ASSERT_GE(found.size(), 4U);
  EXPECT_EQ(found[0], root / "named");
  EXPECT_EQ(found[1], root / "toolkit/lib64");
  for (const char* package : {"cudnn/lib", "cu13/lib"}) {
    EXPECT_TRUE(std::ranges::find(found, packages / package) != found.end()) << package;
  }
}

}  // namespace
}  // namespace convoy
