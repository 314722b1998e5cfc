#pragma once

#include <string>

namespace convoy {

/// Returns the folder that has nets/ and tests/: the checkout that the tests were built from, which the file
/// source-folder beside the test program names, or the unpacked bundle where there is no such file. No test has this
/// path compiled in, so that all sources compile to the same objects in every checkout and share ccache's entries.
std::string source_folder();
/// The folder `name` in the folder of CONVOY_TEST_DATA, or else in ../shared/data beside the checkout. Returns an empty
/// text if there is none; a test then skips with a reason.
std::string real_data(const std::string& name);

}  // namespace convoy
