// Loops of kernels over maps, sums of a map, and activations; this file is put in front of other sources. The third
// index of a work-item is a map (sample and channel combined). A work-item computes the whole map on processors, and
// one element elsewhere.

#ifdef PROCESSOR
#define FOR_ROWS(y, height) for (int y = 0; y < (height); ++y)
#define FOR_COLUMNS(x, width) for (int x = 0; x < (width); ++x)
#else
#define FOR_ROWS(y, height) for (int y = get_global_id(1); y < (height); y += get_global_size(1))
#define FOR_COLUMNS(x, width) for (int x = get_global_id(0); x < (width); x += get_global_size(0))
#endif

float sum_of(float16 parts) {
  const float8 eight = parts.lo + parts.hi;
  const float4 four = eight.lo + eight.hi;
  return (four.x + four.y) + (four.z + four.w);
}

// The sum of `size` elements.
float sum_of_map(global const float* map, int size) {
  float16 parts = 0.0f;
  int i = 0;
  for (; i + 16 <= size; i += 16) parts += vload16(0, map + i);
  float sum = 0.0f;
  for (; i < size; ++i) sum += map[i];
  return sum + sum_of(parts);
}

// The activations of `convolve`, and 4, a leaky ReLU with the slope `slope`; activation.cl has the others. fmax would
// turn NaN into 0.
float activate(int activation, float value, float slope) {
  switch (activation) {
    case 1: return value < 0.0f ? 0.0f : value;
    case 2: return 1.0f / (1.0f + exp(-value));
    case 3: return tanh(value);
    case 4: return value > 0.0f ? value : slope * value;
    default: return value;
  }
}
