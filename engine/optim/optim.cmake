# Every optimizer: optim/NAME.cpp and tests/engine/optim/NAME_test.cpp.
foreach(optimizer adafactor adam adam8bit adamw lamb muon sgd)
  dlpipe_register(optimizer ${optimizer} DIR optim)
endforeach()
dlpipe_table(optimizer optimizer_sources HEADER dlpipe/engine/optim/optimizer.h NAMESPACE dlpipe::engine
             RECORD OptimizerRecord)
list(APPEND optimizer_sources optim/adam_optimizer.cpp optim/clip.cpp optim/elementwise.cpp optim/ema.cpp
     optim/find_optimizer.cpp optim/flat_groups.cpp optim/grad_scaler.cpp
     optim/on_device.cpp optim/schedule.cpp)
