// CLBlast's matrix product, loaded at run time where the library is installed.
#pragma once

#include <string>

#include "cl/context.hpp"

namespace convoy {

/// Returns the reason why CLBlast cannot be used; empty where it can. The environment variable CONVOY_CLBLAST_LIBRARY
/// names a library in place of libclblast.so.1.
const std::string& clblast_missing();

/// c (m x n) = op(a) (m x k) * op(b) (k x n) + beta * c over whole buffers, row-major, as in kernels/host/matmul.hpp.
struct ClProduct {
  int m;
  int n;
  int k;
  bool transpose_a;
  bool transpose_b;
  float beta;
};

/// Enqueues the product. Throws Error with CLBlast's status code where it refuses.
void multiply(ClContext& context, const ClProduct& product, const ClBuffer& a, const ClBuffer& b, const ClBuffer& c);

}  // namespace convoy
