// FFCV includes all of OpenCV but calls only these two modules; see ../opencv4.pc.
#pragma once
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
