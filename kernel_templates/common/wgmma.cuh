// Matrix products of a warpgroup (four consecutive warps, the first a multiple of four) on Hopper's tensor cores: bf16 products, fp32 sums.
// For sm_90a only: docs/decisions.md says why there is no host body.
// PTX ISA, Asynchronous Warpgroup Level Matrix Instructions: wgmma.
#pragma once

#include "common/shared_memory.cuh"
#include "common/types.cuh"

namespace kw {

/// How rows of a matrix lie in shared memory: 16-byte pieces exchanged among rows of 128 or 32 bytes. PTX ISA: Matrix Descriptor Format.
enum class SharedSwizzle : u64 { bytes_128 = 1, bytes_32 = 3 };

/// A matrix in shared memory. `leading` and `stride` are byte offsets as the PTX ISA's section on strides defines them for the matrix's
/// major-ness: K-major, `stride` leads from eight rows to the next eight and `leading` is not used; MN-major, `leading` leads from 64
/// elements along M or N to the next 64 and `stride` from eight rows along K to the next eight.
template <SharedSwizzle swizzle, u32 leading, u32 stride>
KW_INLINE u64 matrix_descriptor(SharedAddress start) {
  constexpr u64 fixed = (static_cast<u64>(leading >> 4) << 16) | (static_cast<u64>(stride >> 4) << 32) | (static_cast<u64>(swizzle) << 62);
  return fixed | ((start.offset & 0x3FFFFu) >> 4);
}
/// The same matrix `bytes` further on.
KW_INLINE u64 advance_descriptor(u64 descriptor, u32 bytes) {
  return descriptor + (bytes >> 4);
}

/// Before the first product after registers of it were written. PTX ISA: wgmma.fence.
KW_INLINE void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// PTX ISA: wgmma.commit_group.
KW_INLINE void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most `groups_left` groups are under way. PTX ISA: wgmma.wait_group.
template <int groups_left>
KW_INLINE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups_left) : "memory");
}

/// The warps of this warpgroup may have `registers` registers a thread from here on; more or fewer than the kernel's launch bounds give.
/// PTX ISA, Miscellaneous Instructions: setmaxnreg.
template <u32 registers>
KW_INLINE void raise_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}
template <u32 registers>
KW_INLINE void lower_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

// Accumulators: for each eight columns, four values a thread as in mma.m16n8k16, warp w of the group holding rows 16 · w to 16 · w + 15.

/// d (+)= A Bᵀ: A 64 × 16 in registers as in mma.m16n8k16, B N × 16 K-major in shared memory; N, 32 or 48, is what d says. PTX ISA:
/// wgmma.mma_async.
KW_INLINE void wgmma_m64k16_registers(float (&d)[16], const u32 (&a)[4], u64 b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
      "}, {%16, %17, %18, %19}, %20, accumulate, 1, 1, 0;\n"
      "}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]),
        "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<u32>(accumulate)));
}
KW_INLINE void wgmma_m64k16_registers(float (&d)[24], const u32 (&a)[4], u64 b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %29, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23"
      "}, {%24, %25, %26, %27}, %28, accumulate, 1, 1, 0;\n"
      "}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]),
        "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<u32>(accumulate)));
}

/// Along which of its axes a matrix in shared memory is contiguous; the value is what the instruction takes (imm-trans-a).
enum class Major : int { k = 0, mn = 1 };

/// d (+)= A Bᵀ: A 64 × 16 and B N × 16 in shared memory, B K-major; N, 8, 16, 32 or 48, is what d says. PTX ISA: wgmma.mma_async.
template <Major major_a = Major::k>
KW_INLINE void wgmma_m64k16(float (&d)[4], u64 a, u64 b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3"
      "}, %4, %5, accumulate, 1, 1, %7, 0;\n"
      "}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(a), "l"(b), "r"(static_cast<u32>(accumulate)), "n"(static_cast<int>(major_a)));
}
template <Major major_a = Major::k>
KW_INLINE void wgmma_m64k16(float (&d)[8], u64 a, u64 b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7"
      "}, %8, %9, accumulate, 1, 1, %11, 0;\n"
      "}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
      : "l"(a), "l"(b), "r"(static_cast<u32>(accumulate)), "n"(static_cast<int>(major_a)));
}
template <Major major_a = Major::k>
KW_INLINE void wgmma_m64k16(float (&d)[16], u64 a, u64 b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
      "}, %16, %17, accumulate, 1, 1, %19, 0;\n"
      "}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]),
        "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "l"(a), "l"(b), "r"(static_cast<u32>(accumulate)), "n"(static_cast<int>(major_a)));
}
template <Major major_a = Major::k>
KW_INLINE void wgmma_m64k16(float (&d)[24], u64 a, u64 b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %26, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23"
      "}, %24, %25, accumulate, 1, 1, %27, 0;\n"
      "}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]),
        "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
      : "l"(a), "l"(b), "r"(static_cast<u32>(accumulate)), "n"(static_cast<int>(major_a)));
}

/// d (+)= A B: A 64 × 16 K-major, B 16 × 128 N-major, both in shared memory. PTX ISA: wgmma.mma_async.
KW_INLINE void wgmma_m64n128k16_values(float (&d)[64], u64 a, u64 b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, accumulate, 1, 1, 0, 1;\n"
      "}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]),
        "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]),
        "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]),
        "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]),
        "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]),
        "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "l"(a), "l"(b), "r"(static_cast<u32>(accumulate)));
}

}  // namespace kw
