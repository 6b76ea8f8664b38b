# Layers, models, optimizers and metrics: what they add to the engine's library.
foreach(model airbench cifarnet gpt2_small gpt_char gpt_char_tiny lenet mlp resnet18 resnet18_cifar resnet200 resnet34
              resnet50 vgg16 vgg19 vit_small_cifar)
  dlpipe_register(model ${model})
endforeach()
foreach(optimizer adafactor adam adam8bit adamw lamb muon sgd)
  dlpipe_register(optimizer ${optimizer} DIR optim)
endforeach()
dlpipe_table(model model_sources HEADER dlpipe/engine/models/model.h NAMESPACE dlpipe::engine RECORD ModelRecord)
dlpipe_table(optimizer optimizer_sources HEADER dlpipe/engine/optim/optimizer.h NAMESPACE dlpipe::engine
             RECORD OptimizerRecord)
list(
  APPEND
  engine_sources
  layers/activation.cpp
  layers/conv2d.cpp
  layers/embedding.cpp
  layers/init.cpp
  layers/linear.cpp
  layers/module.cpp
  layers/norm.cpp
  layers/pool.cpp
  layers/recompute.cpp
  layers/sequential.cpp
  layers/transformer.cpp
  layers/whiten.cpp
  metrics.cpp
  models/gpt.cpp
  models/half_group.cpp
  models/registry.cpp
  models/resnet.cpp
  models/summary.cpp
  models/vgg.cpp
  ${model_sources}
  optim/adam_optimizer.cpp
  optim/clip.cpp
  optim/device_arenas.cpp
  optim/grad_scaler.cpp
  optim/elementwise.cpp
  optim/ema.cpp
  optim/find_optimizer.cpp
  optim/schedule.cpp
  ${optimizer_sources})
