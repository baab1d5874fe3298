// Matrix units that a whole work-group shares (VK_NV_cooperative_matrix2); follows prelude.glsl. matmul_workgroup.k
// explains the macros. Tests replace them, to run the kernel elsewhere.
#if MATRIX_BF16
#define FACTOR_TYPE bfloat16_t
#else
#define FACTOR_TYPE float16_t
#endif
#define LEFT_TILE coopmat<FACTOR_TYPE, gl_ScopeWorkgroup, BLOCK_ROWS, STEP_K, gl_MatrixUseA>
#define RIGHT_TILE coopmat<FACTOR_TYPE, gl_ScopeWorkgroup, STEP_K, BLOCK_COLUMNS, gl_MatrixUseB>
#define SUM_TILE coopmat<float, gl_ScopeWorkgroup, BLOCK_ROWS, BLOCK_COLUMNS, gl_MatrixUseAccumulator>
#define CLEAR_TILE(sum) sum = SUM_TILE(0.0)
#define MULTIPLY_ADD(sum, left, right) sum = coopMatMulAdd(left, right, sum)
#define EACH_ELEMENT(sum, function, x, y, z) coopMatPerElementNV(sum, sum, function, x, y, z)
// An operand as the units address it: its extents and the distance of its lines, in elements. Elements beyond a clamped
// operand's edges are zeros.
#define WHOLE_OPERAND tensorLayoutNV<2>
#define CLAMPED_OPERAND tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV>
#define CREATE_WHOLE createTensorLayoutNV(2)
#define CREATE_CLAMPED createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV)
#define DESCRIBE(operand, outer, across, within)                                                                      \
    setTensorLayoutStrideNV(setTensorLayoutDimensionNV(operand, uint(outer), uint(across)), uint(within), 1u)
#define TURNED createTensorViewNV(2, false, 1, 0)
// The mask tells the compiler that every line begins at a multiple of 16 bytes.
#if A_ALIGNED
#define A_PITCH(pitch) ((pitch) & ~7)
#else
#define A_PITCH(pitch) (pitch)
#endif
#if B_ALIGNED
#define B_PITCH(pitch) ((pitch) & ~7)
#else
#define B_PITCH(pitch) (pitch)
#endif
#if A_K_CONTIGUOUS
#define DESCRIBE_A(operand) DESCRIBE(operand, rows, inner, A_PITCH(a_row))
#define LOAD_LEFT(to, operand, k)                                                                                     \
    coopMatLoadTensorNV(to, A_BUFFER, uint(a_base / 8),                                                               \
                        sliceTensorLayoutNV(operand, uint(first_row), BLOCK_ROWS, uint(k), STEP_K))
#else
#define DESCRIBE_A(operand) DESCRIBE(operand, inner, rows, A_PITCH(a_k))
#define LOAD_LEFT(to, operand, k)                                                                                     \
    coopMatLoadTensorNV(to, A_BUFFER, uint(a_base / 8),                                                               \
                        sliceTensorLayoutNV(operand, uint(k), STEP_K, uint(first_row), BLOCK_ROWS), TURNED)
#endif
#if B_K_CONTIGUOUS
#define DESCRIBE_B(operand) DESCRIBE(operand, columns, inner, B_PITCH(b_column))
#define LOAD_RIGHT(to, operand, k)                                                                                    \
    coopMatLoadTensorNV(to, B_BUFFER, uint(b_base / 8),                                                               \
                        sliceTensorLayoutNV(operand, uint(first_column), BLOCK_COLUMNS, uint(k), STEP_K), TURNED)
#else
#define DESCRIBE_B(operand) DESCRIBE(operand, inner, columns, B_PITCH(b_k))
#define LOAD_RIGHT(to, operand, k)                                                                                    \
    coopMatLoadTensorNV(to, B_BUFFER, uint(b_base / 8),                                                               \
                        sliceTensorLayoutNV(operand, uint(k), STEP_K, uint(first_column), BLOCK_COLUMNS))
#endif
