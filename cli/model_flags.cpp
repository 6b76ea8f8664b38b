#include "dlpipe/cli/model_flags.h"

#include "dlpipe/run/config/enumerated.h"

namespace dlpipe::cli {

void add_model_flags(Flags& flags, run::ModelOptions& model) {
  flags
      .add_option("--ckpt", model.weights,
                  "The trained model: a run (its best checkpoint), a checkpoint, a compiled model, an ONNX "
                  "file, or a safetensors file with PyTorch's names")
      .type_name("PATH")
      .required()
      .not_empty();
  flags.add_option("--model", model.model, "Which model a bare safetensors file holds").type_name("NAME");
  flags
      .add_option("--classes", model.classes,
                  "Class names of a bare safetensors file or an ONNX file: a text file with one per line, or "
                  "a dataset")
      .type_name("PATH");
  flags
      .add_option(
          "--val-augment", model.val_augment,
          "How pictures are prepared. Default: as the checkpoint says; for torchvision's weights "
          "\"resize(256) center_crop(224)\". To a chain without normalize that of the weights is added")
      .type_name("CHAIN");
  flags.add_option("--tta", model.tta, "Average over views of a picture; by default as the checkpoint says")
      .completes(names_of(run::kViewNames))
      .type_name("VIEWS");
  flags.add_option("--dtype", model.dtype, "f32, bf16, f16 (on GPUs); by default as the checkpoint says")
      .type_name("DTYPE");
}

}  // namespace dlpipe::cli
