#include <torch/extension.h>

__global__ void scale_kernel(float* values, float factor, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= factor;
}

torch::Tensor scale(torch::Tensor values, double factor) {
  scale_kernel<<<(values.numel() + 255) / 256, 256>>>(values.data_ptr<float>(), factor, values.numel());
  return values;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("scale", &scale); }
