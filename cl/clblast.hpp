// CLBlast's matrix product, loaded when the program runs where it is installed.
#pragma once

#include <string>

#include "cl/context.hpp"

namespace convoy {

/// Why there is no CLBlast here; empty where there is one. CONVOY_CLBLAST_LIBRARY names another library than
/// libclblast.so.1.
const std::string& clblast_missing();

/// As in kernels/host/matmul.hpp, over all of the buffers: c (m x n) = op(a) (m x k) * op(b) (k x n) + beta * c, row-major.
struct ClProduct {
  int m;
  int n;
  int k;
  bool transpose_a;
  bool transpose_b;
  float beta;
};

/// Enqueues the product. Throws Error with CLBlast's number where it refuses.
void multiply(ClContext& context, const ClProduct& product, const ClBuffer& a, const ClBuffer& b, const ClBuffer& c);

}  // namespace convoy
