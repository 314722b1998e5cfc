// Updates of parameters. The host builds this file for correctly rounded quotients and roots where the device has them.

#pragma OPENCL FP_CONTRACT OFF

int is_broken(float value) { return (as_int(value) & 0x7F800000) == 0x7F800000; }

// Sets `broken` where a value is infinite or NaN.
kernel void find_broken(global const float* restrict values, int count, int chunk, global float* restrict broken) {
  const int first = get_global_id(0) * chunk;
  const int last = min(first + chunk, count);
  int seen = 0;
  for (int i = first; i < last; ++i) seen |= is_broken(values[i]);
  if (seen) *broken = 1.0f;
}

// The optimizer's step (UpdateStep in core/shard_state.hpp), to the bit: each operation is rounded by itself.
// `optimizer` is 0 for SGD, 1 for Nesterov, 2 for Adam; only Adam uses `squares`. Sets `broken` where a result is
// infinite or NaN.
kernel void update(global float* restrict values, global float* restrict velocity, global float* restrict squares,
                   global const float* restrict gradient, int count, int chunk, int optimizer, float scale, float rate,
                   float momentum, float decay, float beta2, float epsilon, float mean_scale, float square_scale,
                   global float* restrict broken) {
  const int first = get_global_id(0) * chunk;
  const int last = min(first + chunk, count);
  int seen = 0;
  for (int i = first; i < last; ++i) {
    const float slope = scale * gradient[i] + decay * values[i];
    if (optimizer == 2) {
      const float v = momentum * velocity[i] + (1.0f - momentum) * slope;
      const float s = beta2 * squares[i] + (1.0f - beta2) * slope * slope;
      velocity[i] = v;
      squares[i] = s;
      seen |= is_broken(s);
      values[i] -= mean_scale * v / (sqrt(square_scale * s) + epsilon);
    } else {
      const float v = momentum * velocity[i] + slope;
      velocity[i] = v;
      values[i] -= rate * (optimizer == 1 ? slope + momentum * v : v);
    }
    seen |= is_broken(values[i]);
  }
  if (seen) *broken = 1.0f;
}
