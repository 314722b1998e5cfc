// cuBLAS and cuDNN, which the CUDA module needs, where the system's own search does not find them: in a CUDA Toolkit,
// or among the Python packages that PyTorch brings.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace convoy {

/// The folders of this machine where these libraries may be, best first: those that CONVOY_CUDA_LIBRARIES names, CUDA
/// Toolkits, then the nvidia packages of the Python environments that the variables VIRTUAL_ENV, CONDA_PREFIX and PATH
/// lead to, of the user and of the system. Only folders that exist.
std::vector<std::filesystem::path> cuda_library_folders();

/// Opens a library, for good. A library that it needs and that the dynamic loader does not find is opened first, from
/// the first of `folders` that has it. Throws Error, which names the library that was not found and how to get it.
void* open_with_libraries(const std::string& file, const std::vector<std::filesystem::path>& folders);

}  // namespace convoy
