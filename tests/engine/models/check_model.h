// What every model has to do, whatever it is made of.
#pragma once

#include <string>

#include "dlpipe/models.h"

namespace dlpipe::engine {

/// gtest failures unless: the model is found by name; logits are finite and [N,classes]; the seed alone
/// decides the weights; hooks on its layers change no bit of a step; every parameter gets a gradient from one
/// step and the loss of a repeated batch falls; an image's logits in eval mode don't depend on its batch; the
/// head's prefix names parameters; the state dict of one instance makes another answer the same.
void check_model(const std::string& name, const ModelArguments& arguments);

/// gtest failures unless names, shapes and order of the model's state dict are those of
/// tests/engine/models/NAME_state_dict.txt, made from torchvision.
void expect_torchvision_state_dict(const std::string& name);

/// Elements of all parameters of the model built for `arguments`.
int64_t count_parameters(const std::string& name, const ModelArguments& arguments);

}  // namespace dlpipe::engine
