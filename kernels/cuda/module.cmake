# Builds the CUDA module where CUDA's compiler is installed. A program loads the module when such a device is requested.
set(CONVOY_HAS_CUDA FALSE)
if(CONVOY_CUDA STREQUAL "OFF")
  message(STATUS "CUDA devices: FALSE")
  return()
endif()

include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES all-major)
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit QUIET)
endif()
if(NOT (CMAKE_CUDA_COMPILER AND TARGET CUDA::cublas AND TARGET CUDA::cudart_static))
  if(CONVOY_CUDA STREQUAL "ON")
    message(FATAL_ERROR "CONVOY_CUDA=ON, but CUDA's compiler (nvcc) or cuBLAS was not found; put nvcc on PATH, or set "
                        "CMAKE_CUDA_COMPILER")
  endif()
  message(STATUS "CUDA devices: FALSE")
  return()
endif()
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} PATHS ${CUDAToolkit_LIBRARY_ROOT}/lib)
set(CONVOY_HAS_CUDNN FALSE)
if(CUDNN_INCLUDE_DIR AND CUDNN_LIBRARY)
  set(CONVOY_HAS_CUDNN TRUE)
endif()
set(CONVOY_HAS_CUDA TRUE)
set(CONVOY_CUDA_MAJOR ${CUDAToolkit_VERSION_MAJOR})
message(STATUS "CUDA devices: TRUE (CUDA ${CUDAToolkit_VERSION}, cuDNN: ${CONVOY_HAS_CUDNN})")

# The module compiles the sources of core that it needs again, position-independent, because core's own library is not.
set(core ${PROJECT_SOURCE_DIR}/core)
add_library(convoy_cuda MODULE cuda/device.cpp cuda/gpu.cu cuda/grouped_convolution.cpp cuda/layers.cpp cuda/module.cpp
                               cuda/norm.cpp cuda/product_convolution.cpp cuda/weightless.cpp device.cpp host/grouped.cpp
                               ${core}/cache_folder.cpp ${core}/disk_cache.cpp ${core}/large_pages.cpp
                               ${core}/shard_state.cpp ${core}/stage.cpp ${core}/trunk.cpp)
set_target_properties(convoy_cuda PROPERTIES PREFIX "" OUTPUT_NAME convoy-cuda CUDA_STANDARD 17
                                             LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
target_link_options(convoy_cuda PRIVATE LINKER:--no-undefined)  # missing symbols show at build time, not at load time
target_compile_definitions(convoy_cuda PRIVATE CONVOY_VERSION="${PROJECT_VERSION}")
target_link_libraries(convoy_cuda PRIVATE convoy_options fmt::fmt Threads::Threads CUDA::cudart_static CUDA::cublas)
if(CONVOY_HAS_CUDNN)
  target_sources(convoy_cuda PRIVATE cuda/bare_convolution.cpp cuda/dnn_convolution.cpp)
  # cuDNN 9 deprecates its convolution functions but keeps them.
  set_source_files_properties(cuda/bare_convolution.cpp cuda/dnn_convolution.cpp PROPERTIES COMPILE_OPTIONS
                                                                                            -Wno-deprecated-declarations)
  target_include_directories(convoy_cuda SYSTEM PRIVATE ${CUDNN_INCLUDE_DIR})
  target_link_libraries(convoy_cuda PRIVATE ${CUDNN_LIBRARY})
else()
  target_sources(convoy_cuda PRIVATE cuda/without_dnn.cpp)
endif()
install(TARGETS convoy_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/convoy)
