// The transforms of one dimension that Winograd's convolution is made of: in(i) is what stands at i, out(i, value) takes
// what becomes of it there. All is read before anything is written. Vectors are handed on one by one: those of SVE can't
// be elements of arrays. Included once for each instruction set (Highway's foreach_target), so with a guard of its own
// kind.
#include <hwy/highway.h>

#if defined(DLPIPE_WINOGRAD_TRANSFORMS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef DLPIPE_WINOGRAD_TRANSFORMS_INL
#undef DLPIPE_WINOGRAD_TRANSFORMS_INL
#else
#define DLPIPE_WINOGRAD_TRANSFORMS_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace dlpipe::engine::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Points +-kA and +-kB: kA * kB = 1, kA^2 = 1/2, kB^2 = 2.
constexpr float kA = 0.70710678118654752440f;
constexpr float kB = 1.41421356237309504880f;

// B^T: six pixels to six frequencies.
template <class D, class In, class Out>
HWY_INLINE void transform_input(D d, const In& in, const Out& out) {
  using V = hn::Vec<D>;
  const V x0 = in(0), x1 = in(1), x2 = in(2), x3 = in(3), x4 = in(4), x5 = in(5);
  const V two = hn::Set(d, 2.0f), half = hn::Set(d, 0.5f), five_halves = hn::Set(d, 2.5f);
  const V a = hn::Set(d, kA), b = hn::Set(d, kB);
  out(0, hn::NegMulAdd(five_halves, x2, hn::Add(x0, x4)));
  out(5, hn::NegMulAdd(five_halves, x3, hn::Add(x1, x5)));
  const V even_a = hn::NegMulAdd(two, x2, x4), odd_a = hn::NegMulAdd(two, x1, x3);
  out(1, hn::MulAdd(a, odd_a, even_a));
  out(2, hn::NegMulAdd(a, odd_a, even_a));
  const V even_b = hn::NegMulAdd(half, x2, x4), odd_b = hn::NegMulAdd(half, x1, x3);
  out(3, hn::MulAdd(b, odd_b, even_b));
  out(4, hn::NegMulAdd(b, odd_b, even_b));
}

// A^T: six frequencies to four pixels.
template <class D, class In, class Out>
HWY_INLINE void transform_output(D d, const In& in, const Out& out) {
  using V = hn::Vec<D>;
  const V m0 = in(0), m1 = in(1), m2 = in(2), m3 = in(3), m4 = in(4), m5 = in(5);
  const V sum_a = hn::Add(m1, m2), difference_a = hn::Sub(m1, m2);
  const V sum_b = hn::Add(m3, m4), difference_b = hn::Sub(m3, m4);
  out(0, hn::Add(hn::Add(m0, sum_a), sum_b));
  out(1, hn::MulAdd(hn::Set(d, kA), difference_a, hn::Mul(hn::Set(d, kB), difference_b)));
  out(2, hn::MulAdd(hn::Set(d, 0.5f), sum_a, hn::Add(sum_b, sum_b)));
  out(3,
      hn::MulAdd(hn::Set(d, 0.5f * kA), difference_a, hn::MulAdd(hn::Set(d, 2.0f * kB), difference_b, m5)));
}

// A: four pixels to six frequencies.
template <class D, class In, class Out>
HWY_INLINE void transform_gradient(D d, const In& in, const Out& out) {
  using V = hn::Vec<D>;
  const V y0 = in(0), y1 = in(1), y2 = in(2), y3 = in(3);
  const V two = hn::Set(d, 2.0f), half = hn::Set(d, 0.5f);
  const V a = hn::Set(d, kA), b = hn::Set(d, kB);
  const V even_a = hn::MulAdd(half, y2, y0), odd_a = hn::MulAdd(half, y3, y1);
  const V even_b = hn::MulAdd(two, y2, y0), odd_b = hn::MulAdd(two, y3, y1);
  out(0, y0);
  out(1, hn::MulAdd(a, odd_a, even_a));
  out(2, hn::NegMulAdd(a, odd_a, even_a));
  out(3, hn::MulAdd(b, odd_b, even_b));
  out(4, hn::NegMulAdd(b, odd_b, even_b));
  out(5, y3);
}

// G: three taps to six frequencies.
template <class D, class In, class Out>
HWY_INLINE void transform_taps(D d, const In& in, const Out& out) {
  using V = hn::Vec<D>;
  const V g0 = in(0), g1 = in(1), g2 = in(2);
  const V scale_a = hn::Set(d, -2.0f / 3.0f), scale_b = hn::Set(d, 1.0f / 6.0f);
  const V even_a = hn::Mul(scale_a, hn::MulAdd(hn::Set(d, 0.5f), g2, g0));
  const V odd_a = hn::Mul(hn::Set(d, -2.0f / 3.0f * kA), g1);
  const V even_b = hn::Mul(scale_b, hn::MulAdd(hn::Set(d, 2.0f), g2, g0));
  const V odd_b = hn::Mul(hn::Set(d, kB / 6.0f), g1);
  out(0, g0);
  out(1, hn::Add(even_a, odd_a));
  out(2, hn::Sub(even_a, odd_a));
  out(3, hn::Add(even_b, odd_b));
  out(4, hn::Sub(even_b, odd_b));
  out(5, g2);
}

// G^T: six frequencies to three taps.
template <class D, class In, class Out>
HWY_INLINE void transform_taps_gradient(D d, const In& in, const Out& out) {
  using V = hn::Vec<D>;
  const V u0 = in(0), u1 = in(1), u2 = in(2), u3 = in(3), u4 = in(4), u5 = in(5);
  const V sum_a = hn::Add(u1, u2), difference_a = hn::Sub(u1, u2);
  const V sum_b = hn::Add(u3, u4), difference_b = hn::Sub(u3, u4);
  const V third = hn::Set(d, 1.0f / 3.0f);
  out(0, hn::MulAdd(hn::Set(d, -2.0f / 3.0f), sum_a, hn::MulAdd(hn::Set(d, 1.0f / 6.0f), sum_b, u0)));
  out(1,
      hn::MulAdd(hn::Set(d, -2.0f / 3.0f * kA), difference_a, hn::Mul(hn::Set(d, kB / 6.0f), difference_b)));
  out(2, hn::MulAdd(third, hn::Sub(sum_b, sum_a), u5));
}

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::engine::cpu
HWY_AFTER_NAMESPACE();
#endif
