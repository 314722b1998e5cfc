// Dropout: the factors of dropout_scale (core/random.cpp), to the bit.

// Returns the first word of Philox 4x32-10 (Salmon et al., SC 2011) at `counter`.
uint philox(uint4 counter, uint2 key) {
  for (int round = 0; round < 10; ++round) {
    const uint high0 = mul_hi(0xD2511F53u, counter.x);
    const uint low0 = 0xD2511F53u * counter.x;
    const uint high1 = mul_hi(0xCD9E8D57u, counter.z);
    const uint low1 = 0xCD9E8D57u * counter.z;
    counter = (uint4)(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
    key += (uint2)(0x9E3779B9u, 0xBB67AE85u);
  }
  return counter.x;
}

// Multiplies maps by the factors, with the work-items of maps.cl. `scale` is 1 / (1 - rate). The shard's channels begin
// at first_filter of the stage, and its samples at first_sample of each micro-batch of `whole` samples, of which the
// shard has `micro_batch`. With `spatial` all elements of a map have the factor of its first.
kernel void drop_out(global const float* restrict input, global float* restrict output, int channels, int height,
                     int width, uint seed_low, uint seed_high, uint stream, float rate, float scale, int first_filter,
                     int first_sample, int micro_batch, int whole, int spatial) {
  const size_t map = get_global_id(2);
  const int sample = map / channels;
  const uint number = sample / micro_batch * whole + first_sample + sample % micro_batch;
  const uint channel = first_filter + (int)(map % channels);
  FOR_ROWS(y, height) {
    const size_t row = (map * height + y) * width;
    FOR_COLUMNS(x, width) {
      const uint element = spatial ? 0 : y * width + x;
      const uint word = philox((uint4)(element, channel, number, stream), (uint2)(seed_low, seed_high));
      const float drawn = (float)(word >> 8) * 0x1.0p-24f;  // exact
      output[row + x] = input[row + x] * (drawn < rate ? 0.0f : scale);
    }
  }
}
