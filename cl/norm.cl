// Batch norm (core/stage.hpp). `mean` and `inverse` (1 / standard deviation) have one value per channel. The summands
// of sums over the batch are first written as maps, which sum_maps and sum_slices (layers.cl) then add up.

// (x - mean)^2, where mean = sum / count.
kernel void square_distances(global const float* restrict input, global const float* restrict sums,
                             global float* restrict squares, int height, int width, int channels, float count) {
  const size_t map = get_global_id(2);
  const float mean = sums[map % channels] / count;
  FOR_ROWS(y, height) {
    const size_t row = (map * height + y) * width;
    FOR_COLUMNS(x, width) squares[row + x] = (input[row + x] - mean) * (input[row + x] - mean);
  }
}

// In training the moments come from the sums of x and of (x - mean)^2, and update the running averages; outside
// training they come from the running averages.
kernel void norm_moments(global const float* restrict sums, global const float* restrict squares,
                         global float* restrict running_mean, global float* restrict running_variance,
                         global float* restrict mean, global float* restrict inverse, int channels, float count,
                         float epsilon, float momentum, int training) {
  const int c = get_global_id(0);
  if (c >= channels) return;
  if (training) {
    mean[c] = sums[c] / count;
    inverse[c] = 1.0f / sqrt(squares[c] / count + epsilon);
    running_mean[c] = (1.0f - momentum) * running_mean[c] + momentum * mean[c];
    running_variance[c] = (1.0f - momentum) * running_variance[c] + momentum * squares[c] / fmax(1.0f, count - 1.0f);
  } else {
    mean[c] = running_mean[c];
    inverse[c] = 1.0f / sqrt(running_variance[c] + epsilon);
  }
}

kernel void normalise(global const float* restrict input, global const float* restrict mean,
                      global const float* restrict inverse, global const float* restrict weight,
                      global const float* restrict bias, global float* restrict output, int height, int width,
                      int channels) {
  const size_t map = get_global_id(2);
  const int c = map % channels;
  const float factor = inverse[c] * weight[c];
  FOR_ROWS(y, height) {
    const size_t row = (map * height + y) * width;
    FOR_COLUMNS(x, width) output[row + x] = (input[row + x] - mean[c]) * factor + bias[c];
  }
}

// The gradient with respect to the output, multiplied by the normalised input.
kernel void norm_products(global const float* restrict input, global const float* restrict gradient,
                          global const float* restrict mean, global const float* restrict inverse,
                          global float* restrict products, int height, int width, int channels) {
  const size_t map = get_global_id(2);
  const int c = map % channels;
  FOR_ROWS(y, height) {
    const size_t row = (map * height + y) * width;
    FOR_COLUMNS(x, width) products[row + x] = gradient[row + x] * (input[row + x] - mean[c]) * inverse[c];
  }
}

// Computes the gradient with respect to the input from the gradient with respect to the output; `sums` and `products`
// are sums over each channel.
kernel void norm_gradient(global const float* restrict input, global const float* restrict gradient,
                          global const float* restrict mean, global const float* restrict inverse,
                          global const float* restrict weight, global const float* restrict sums,
                          global const float* restrict products, global float* restrict input_gradient, int height,
                          int width, int channels, float count) {
  const size_t map = get_global_id(2);
  const int c = map % channels;
  const float factor = weight[c] * inverse[c];
  const float mean_gradient = sums[c] / count;
  const float slope = inverse[c] * products[c] / count;
  FOR_ROWS(y, height) {
    const size_t row = (map * height + y) * width;
    FOR_COLUMNS(x, width) {
      input_gradient[row + x] = factor * (gradient[row + x] - mean_gradient - (input[row + x] - mean[c]) * slope);
    }
  }
}
