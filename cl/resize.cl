// Maps with other numbers of rows and columns (Resizing in core/stage.hpp). A shard has `count` channels of its stage,
// from `first` on; its input has all `channels`. The tables of rows and of columns are those of
// kernels/host/axis_tables.hpp.

kernel void resize_maps(global const float* restrict input, global float* restrict maps, global const int* above,
                        global const int* below, global const float* down, global const int* left,
                        global const int* right, global const float* across, int channels, int first, int count,
                        int linear, int height, int width, int out_height, int out_width) {
  const size_t map = get_global_id(2);
  global const float* from = input + (map / count * channels + first + map % count) * height * width;
  global float* to = maps + map * out_height * out_width;
  FOR_ROWS(y, out_height) {
    const float lower = down[y];
    global const float* upper_row = from + max(above[y], 0) * width;
    global const float* lower_row = from + max(below[y], 0) * width;
    FOR_COLUMNS(x, out_width) {
      const int l = max(left[x], 0);
      float value = upper_row[l];
      if (linear) {
        const int r = right[x];
        const float righter = across[x];
        value = (1.0f - lower) * (1.0f - righter) * upper_row[l] + (1.0f - lower) * righter * upper_row[r] +
                lower * (1.0f - righter) * lower_row[l] + lower * righter * lower_row[r];
      }
      to[(size_t)y * out_width + x] = above[y] < 0 || left[x] < 0 ? 0.0f : value;
    }
  }
}

// The weight of element `at` of the map in an element of the result that lies between two elements.
float weight_between(int at, int first, int second, float weight) {
  return (first == at ? 1.0f - weight : 0.0f) + (second == at ? weight : 0.0f);
}

// Each element of the input sums its parts in the elements of the result; the sum is 0 where the shard lacks the
// channel.
kernel void resize_maps_gradient(global const float* restrict gradient, global float* restrict input_gradient,
                                 global const int* above, global const int* below, global const float* down,
                                 global const int* left, global const int* right, global const float* across,
                                 global const int* row_begin, global const int* row_end, global const int* column_begin,
                                 global const int* column_end, int channels, int first, int count, int height,
                                 int width, int out_height, int out_width) {
  const size_t map = get_global_id(2);
  const int filter = (int)(map % channels) - first;
  const bool own = filter >= 0 && filter < count;
  global const float* from = gradient + (map / channels * count + (own ? filter : 0)) * out_height * out_width;
  FOR_ROWS(y, height) {
    FOR_COLUMNS(x, width) {
      float sum = 0.0f;
      for (int out_y = row_begin[y]; own && out_y < row_end[y]; ++out_y) {
        if (above[out_y] != y && below[out_y] != y) continue;
        const float of_row = weight_between(y, above[out_y], below[out_y], down[out_y]);
        for (int out_x = column_begin[x]; out_x < column_end[x]; ++out_x) {
          if (left[out_x] != x && right[out_x] != x) continue;
          const float of_column = weight_between(x, left[out_x], right[out_x], across[out_x]);
          sum += of_row * of_column * from[(size_t)out_y * out_width + out_x];
        }
      }
      input_gradient[(map * height + y) * width + x] = sum;
    }
  }
}
