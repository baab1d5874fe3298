small:                                  ; @small
; %bb.0:
	s_clause 0x1
	s_load_b32 s6, s[0:1], 0x18
	s_load_b64 s[4:5], s[0:1], 0x10
	s_waitcnt lgkmcnt(0)
	s_cmp_lt_i32 s6, 1
	s_cbranch_scc1 .LBB0_3
; %bb.1:
	s_load_b128 s[0:3], s[0:1], 0x0
	v_dual_mov_b32 v18, 0 :: v_dual_lshlrev_b32 v19, 4, v0
	v_lshlrev_b32_e32 v1, 2, v0
	v_dual_mov_b32 v17, v0 :: v_dual_and_b32 v2, 3, v0
	v_mov_b32_e32 v6, 0
	s_delay_alu instid0(VALU_DEP_4) | instskip(SKIP_1) | instid1(VALU_DEP_4)
	v_or_b32_e32 v20, 0x400, v19
	v_dual_mov_b32 v3, 0 :: v_dual_mov_b32 v8, 0
	v_lshl_or_b32 v22, v2, 4, 0x400
	v_dual_mov_b32 v2, 0 :: v_dual_and_b32 v21, 0xf0, v1
	v_dual_mov_b32 v4, 0 :: v_dual_mov_b32 v1, 0
	v_dual_mov_b32 v5, 0 :: v_dual_mov_b32 v10, 0
	v_dual_mov_b32 v7, 0 :: v_dual_mov_b32 v12, 0
	v_dual_mov_b32 v9, 0 :: v_dual_mov_b32 v14, 0
	v_dual_mov_b32 v11, 0 :: v_dual_mov_b32 v16, 0
	v_mov_b32_e32 v13, 0
	v_mov_b32_e32 v15, 0
.LBB0_2:                                ; =>This Inner Loop Header: Depth=1
	v_lshlrev_b64 v[23:24], 4, v[17:18]
	s_add_i32 s6, s6, -1
	s_delay_alu instid0(SALU_CYCLE_1) | instskip(SKIP_1) | instid1(VALU_DEP_1)
	s_cmp_eq_u32 s6, 0
	s_waitcnt lgkmcnt(0)
	v_add_co_u32 v25, vcc_lo, s0, v23
	s_delay_alu instid0(VALU_DEP_2)
	v_add_co_ci_u32_e32 v26, vcc_lo, s1, v24, vcc_lo
	v_add_co_u32 v27, vcc_lo, s2, v23
	v_add_co_ci_u32_e32 v28, vcc_lo, s3, v24, vcc_lo
	global_load_b128 v[23:26], v[25:26], off
	global_load_b128 v[27:30], v[27:28], off
	s_waitcnt vmcnt(0) lgkmcnt(15)
	s_barrier
	ds_store_b128 v19, v[23:26]
	ds_store_b128 v20, v[27:30]
	s_waitcnt vmcnt(0) lgkmcnt(0)
	s_barrier
	ds_load_b128 v[23:26], v22
	ds_load_b128 v[27:30], v21
	ds_load_b128 v[31:34], v21 offset:256
	ds_load_b128 v[35:38], v22 offset:256
	ds_load_b128 v[39:42], v21 offset:512
	ds_load_b128 v[43:46], v21 offset:768
	ds_load_b128 v[47:50], v22 offset:512
	ds_load_b128 v[51:54], v22 offset:768
	s_waitcnt lgkmcnt(6)
	v_dual_fmac_f32 v4, v27, v26 :: v_dual_add_nc_u32 v17, 64, v17
	v_dual_fmac_f32 v3, v27, v25 :: v_dual_fmac_f32 v8, v28, v26
	v_dual_fmac_f32 v2, v27, v24 :: v_dual_fmac_f32 v7, v28, v25
	v_dual_fmac_f32 v1, v27, v23 :: v_dual_fmac_f32 v6, v28, v24
	v_dual_fmac_f32 v5, v28, v23 :: v_dual_fmac_f32 v12, v29, v26
	v_dual_fmac_f32 v11, v29, v25 :: v_dual_fmac_f32 v16, v30, v26
	v_dual_fmac_f32 v10, v29, v24 :: v_dual_fmac_f32 v15, v30, v25
	v_dual_fmac_f32 v9, v29, v23 :: v_dual_fmac_f32 v14, v30, v24
	s_waitcnt lgkmcnt(4)
	v_dual_fmac_f32 v13, v30, v23 :: v_dual_fmac_f32 v2, v31, v36
	v_dual_fmac_f32 v1, v31, v35 :: v_dual_fmac_f32 v6, v32, v36
	v_dual_fmac_f32 v3, v31, v37 :: v_dual_fmac_f32 v8, v32, v38
	v_dual_fmac_f32 v4, v31, v38 :: v_dual_fmac_f32 v5, v32, v35
	v_dual_fmac_f32 v7, v32, v37 :: v_dual_fmac_f32 v10, v33, v36
	v_dual_fmac_f32 v9, v33, v35 :: v_dual_fmac_f32 v14, v34, v36
	v_dual_fmac_f32 v11, v33, v37 :: v_dual_fmac_f32 v16, v34, v38
	v_dual_fmac_f32 v12, v33, v38 :: v_dual_fmac_f32 v13, v34, v35
	s_waitcnt lgkmcnt(1)
	v_dual_fmac_f32 v15, v34, v37 :: v_dual_fmac_f32 v4, v39, v50
	v_dual_fmac_f32 v3, v39, v49 :: v_dual_fmac_f32 v8, v40, v50
	v_dual_fmac_f32 v2, v39, v48 :: v_dual_fmac_f32 v7, v40, v49
	v_dual_fmac_f32 v1, v39, v47 :: v_dual_fmac_f32 v6, v40, v48
	v_dual_fmac_f32 v5, v40, v47 :: v_dual_fmac_f32 v12, v41, v50
	v_dual_fmac_f32 v11, v41, v49 :: v_dual_fmac_f32 v16, v42, v50
	v_dual_fmac_f32 v10, v41, v48 :: v_dual_fmac_f32 v15, v42, v49
	v_dual_fmac_f32 v9, v41, v47 :: v_dual_fmac_f32 v14, v42, v48
	s_waitcnt lgkmcnt(0)
	v_dual_fmac_f32 v13, v42, v47 :: v_dual_fmac_f32 v2, v43, v52
	v_dual_fmac_f32 v1, v43, v51 :: v_dual_fmac_f32 v6, v44, v52
	v_dual_fmac_f32 v3, v43, v53 :: v_dual_fmac_f32 v8, v44, v54
	v_dual_fmac_f32 v4, v43, v54 :: v_dual_fmac_f32 v5, v44, v51
	v_dual_fmac_f32 v7, v44, v53 :: v_dual_fmac_f32 v10, v45, v52
	v_dual_fmac_f32 v9, v45, v51 :: v_dual_fmac_f32 v14, v46, v52
	v_dual_fmac_f32 v11, v45, v53 :: v_dual_fmac_f32 v16, v46, v54
	v_dual_fmac_f32 v12, v45, v54 :: v_dual_fmac_f32 v13, v46, v51
	v_fmac_f32_e32 v15, v46, v53
	s_cbranch_scc0 .LBB0_2
	s_branch .LBB0_4
.LBB0_3:
	v_dual_mov_b32 v4, 0 :: v_dual_mov_b32 v3, 0
	v_dual_mov_b32 v2, 0 :: v_dual_mov_b32 v1, 0
	v_dual_mov_b32 v8, 0 :: v_dual_mov_b32 v7, 0
	v_dual_mov_b32 v6, 0 :: v_dual_mov_b32 v5, 0
	v_dual_mov_b32 v12, 0 :: v_dual_mov_b32 v11, 0
	v_dual_mov_b32 v10, 0 :: v_dual_mov_b32 v9, 0
	v_dual_mov_b32 v16, 0 :: v_dual_mov_b32 v15, 0
	v_dual_mov_b32 v14, 0 :: v_dual_mov_b32 v13, 0
.LBB0_4:
	v_lshlrev_b32_e32 v0, 6, v0
	s_clause 0x3
	global_store_b128 v0, v[1:4], s[4:5]
	global_store_b128 v0, v[5:8], s[4:5] offset:16
	global_store_b128 v0, v[9:12], s[4:5] offset:32
	global_store_b128 v0, v[13:16], s[4:5] offset:48
	s_nop 0
	s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)
	s_endpgm
