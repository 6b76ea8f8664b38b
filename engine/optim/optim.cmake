# Every optimizer: its record is in optim/FILE.cpp (NAME.cpp without FILE), its test is tests/engine/optim/NAME_test.cpp.
dlpipe_register(optimizer adafactor DIR optim)
dlpipe_register(optimizer adam DIR optim)
dlpipe_register(optimizer adam8bit DIR optim FILE adam)
dlpipe_register(optimizer adamw DIR optim FILE adam)
dlpipe_register(optimizer lamb DIR optim FILE adam)
dlpipe_register(optimizer muon DIR optim FILE sgd)
dlpipe_register(optimizer sgd DIR optim)
dlpipe_table(optimizer optimizer_sources HEADER dlpipe/optim.h NAMESPACE dlpipe::engine
             RECORD OptimizerRecord)
list(APPEND optimizer_sources optim/elementwise.cpp optim/ema.cpp optim/flat_groups.cpp optim/gradients.cpp
     optim/optimizer.cpp optim/schedule.cpp)
