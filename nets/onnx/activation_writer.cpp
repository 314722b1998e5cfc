#include "nets/onnx/activation_writer.hpp"

#include <cmath>
#include <numbers>

namespace convoy::onnx_file {

void ActivationWriter::write_activation(const std::string& name, const Activation& activation, const std::string& x) {
  using Kind = Activation::Kind;
  const auto [kind, alpha, beta] = activation;
  switch (kind) {
    case Kind::relu: node("Relu", name, {x}); break;
    case Kind::sigmoid: node("Sigmoid", name, {x}); break;
    case Kind::tanh: node("Tanh", name, {x}); break;
    case Kind::leaky_relu: set(node("LeakyRelu", name, {x}), "alpha", alpha); break;
    case Kind::clip: write_clip(name, alpha, beta, x); break;
    case Kind::hard_sigmoid: {
      onnx::NodeProto& made = node("HardSigmoid", name, {x});
      set(made, "alpha", alpha);
      set(made, "beta", beta);
      break;
    }
    case Kind::elu: set(node("Elu", name, {x}), "alpha", alpha); break;
    case Kind::selu: node("Selu", name, {x}); break;
    case Kind::softplus: node("Softplus", name, {x}); break;
    case Kind::silu: write_product(name, x, "Sigmoid"); break;
    case Kind::hard_swish: write_hard_swish(name, x); break;
    case Kind::gelu: write_gelu(name, x); break;
    case Kind::gelu_tanh: write_gelu_by_tanh(name, x); break;
    case Kind::mish: write_mish(name, x); break;
    case Kind::celu: set(node("Celu", name, {x}), "alpha", alpha); break;
  }
}

void ActivationWriter::write_clip(const std::string& name, float low, float high, const std::string& x) {
  std::vector<std::string> inputs{x, std::isfinite(low) ? number(name + ".low", low) : ""};
  if (std::isfinite(high)) inputs.push_back(number(name + ".high", high));
  node("Clip", name, inputs);
}

onnx::NodeProto& ActivationWriter::write_product(const std::string& name, const std::string& x,
                                                 const std::string& type) {
  onnx::NodeProto& factor = node(type, name + ".factor", {x});
  node("Mul", name, {x, name + ".factor"});
  return factor;
}

void ActivationWriter::write_hard_swish(const std::string& name, const std::string& x) {
  onnx::NodeProto& factor = write_product(name, x, "HardSigmoid");
  set(factor, "alpha", 1.0F / 6.0F);
  set(factor, "beta", 0.5F);
}

void ActivationWriter::write_gelu(const std::string& name, const std::string& x) {
  node("Div", name + ".scaled", {x, number(name + ".root", std::numbers::sqrt2_v<float>)});
  node("Erf", name + ".erf", {name + ".scaled"});
  node("Add", name + ".sum", {name + ".erf", number(name + ".one", 1.0F)});
  node("Mul", name + ".product", {x, name + ".sum"});
  node("Mul", name, {name + ".product", number(name + ".half", 0.5F)});
}

void ActivationWriter::write_gelu_by_tanh(const std::string& name, const std::string& x) {
  node("Mul", name + ".half", {x, number(name + ".share", 0.5F)});
  node("Mul", name + ".square", {x, x});
  node("Mul", name + ".cube", {name + ".square", x});
  node("Mul", name + ".part", {name + ".cube", number(name + ".factor", 0.044715F)});
  node("Add", name + ".inner", {x, name + ".part"});
  node("Mul", name + ".scaled",
       {name + ".inner", number(name + ".root", std::sqrt(std::numbers::inv_pi_v<float> * 2.0F))});
  node("Tanh", name + ".tanh", {name + ".scaled"});
  node("Add", name + ".sum", {name + ".tanh", number(name + ".one", 1.0F)});
  node("Mul", name, {name + ".half", name + ".sum"});
}

void ActivationWriter::write_mish(const std::string& name, const std::string& x) {
  node("Softplus", name + ".softplus", {x});
  node("Tanh", name + ".factor", {name + ".softplus"});
  node("Mul", name, {x, name + ".factor"});
}

}  // namespace convoy::onnx_file
