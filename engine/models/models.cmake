# Every model: models/NAME.cpp and tests/engine/models/NAME_test.cpp.
foreach(model airbench cifarnet gpt2_small gpt_char gpt_char_tiny lenet mlp resnet18 resnet18_cifar resnet200 resnet34
              resnet50 vgg16 vgg19 vit_small_cifar)
  dlpipe_register(model ${model})
endforeach()
dlpipe_table(model model_sources HEADER dlpipe/engine/models/model.h NAMESPACE dlpipe::engine RECORD ModelRecord)
list(APPEND model_sources models/capture_model.cpp models/gpt.cpp models/graph_module.cpp models/half_group.cpp models/picture_graph.cpp models/registry.cpp models/resnet.cpp models/summary.cpp
     models/vgg.cpp)
