L0:
(W) mov (8|M0)  r127.0<1>:ud  0x0:ud
(W) and (1|M0)  r127.2<1>:ud  r0.0<0;1,0>:ud  0xFFFFFFC0:ud
(W) and (1|M0)  r127.0<1>:uw  r0.4<0;1,0>:uw  0xFF:uw
(W) add (1|M0)  r127.2<1>:ud  r127.2<0;1,0>:ud  0x40:uw  {I@2}
(W) mad (1|M0)  r127.2<1>:ud  r127.2<0;0>:ud  r127.0<0;0>:uw  0x60:uw  {I@1}
(W) mov (8|M0)  r4.0<1>:ud  r1.0<1;1,0>:ud
(W) send.dc0 (8|M0)  r1  r127  null:0  0x0  0x022843FD  {A@1,$0} // wr:1h+0, rd:2; oword aligned block read x4
(W) add (1|M0)  r127.2<1>:ud  r127.2<0;1,0>:ud  0x40:uw  {$0.src}
L3320:
(W) cmp (8|M0)  (lt)f0.1  null<1>:d  r6.1<0;1,0>:d  r58.0<0;1,0>:d  {I@1}
(~f0.1) goto (8|M0)  L9336  L9336
L3352:
(W) add (1|M0)  r6.1<1>:d  r6.1<0;1,0>:d  8:w
(W) cmp (8|M0)  (lt)f0.0  null<1>:d  r6.1<0;1,0>:d  r58.0<0;1,0>:d  {I@1}
(~f0.0) goto (8|M0)  L3544  L3544
L3392:
	sync.nop  null  {Compacted,$12.src}
	shl (8|M0)  r2.0<1>:d  r55.0<1;1,0>:d  2:w  {Compacted,$11.src}
	shl (8|M0)  r11.0<1>:d  r51.0<1;1,0>:d  2:w
	add (8|M0)  r2.0<1>:d  r2.0<1;1,0>:d  r6.4<0;1,0>:d  {Compacted,I@2}
	add (8|M0)  r11.0<1>:d  r11.0<1;1,0>:d  r6.5<0;1,0>:d  {Compacted,I@2}
	send.dc1 (8|M0)  r7  r2  null:0  0x0  0x02406001  {A@2,$13} // wr:1+0, rd:4; untyped surface read with xyzw
	send.dc1 (8|M0)  r2  r11  null:0  0x0  0x02406002  {A@1,$14} // wr:1+0, rd:4; untyped surface read with xyzw
	add (8|M0)  r55.0<1>:d  r55.0<1;1,0>:d  r6.3<0;1,0>:d
	add (8|M0)  r51.0<1>:d  r51.0<1;1,0>:d  r6.2<0;1,0>:d
	mov (8|M0)  r108.0<1>:f  r7.0<1;1,0>:f  {Compacted,$13.dst}
	mov (8|M0)  r107.0<1>:f  r8.0<1;1,0>:f
	mov (8|M0)  r106.0<1>:f  r9.0<1;1,0>:f
	mov (8|M0)  r105.0<1>:f  r10.0<1;1,0>:f
	mov (8|M0)  r104.0<1>:f  r2.0<1;1,0>:f  {Compacted,$14.dst}
	mov (8|M0)  r103.0<1>:f  r3.0<1;1,0>:f
	mov (8|M0)  r102.0<1>:f  r4.0<1;1,0>:f
	mov (8|M0)  r101.0<1>:f  r5.0<1;1,0>:f
L3544:
	join (8|M0)  L9336
L3560:
(W) shl (1|M0)  r56.6<1>:d  r6.0<0;1,0>:d  8:w
(W) add (1|M0)  r6.0<1>:d  -r6.0<0;1,0>:d  1:w
	bfn.0xEA (8|M0)  r11.0<1>:ud  r56.6<0;0>:ud  r57.0<1;0>:ud  r6.7<0>:ud  {I@2} // s0|s1&s2
	or (8|M0)  acc0.0<1>:d  r56.6<0;1,0>:d  r109.0<1;1,0>:d
	shl (8|M0)  r61.0<1>:d  r11.0<1;1,0>:d  4:w  {Compacted,I@2}
	shl (8|M0)  r59.0<1>:d  acc0.0<1;1,0>:d  4:w
	add (8|M0)  r11.0<1>:d  r61.0<1;1,0>:d  8192:w  {I@2}
	or (8|M0)  r93.0<1>:d  r59.0<1;1,0>:d  256:w  {Compacted,I@2}
	send.dc1 (8|M0)  r19  r11  null:0  0x0  0x024060FE  {A@2,$15} // wr:1+0, rd:4; untyped surface read with xyzw
	add (8|M0)  r11.0<1>:d  r61.0<1;1,0>:d  8448:w  {$15.src}
(W) shl (1|M0)  r56.6<1>:d  r6.0<0;1,0>:d  8:w
	send.dc1 (8|M0)  r15  r11  null:0  0x0  0x024060FE  {A@2,$0} // wr:1+0, rd:4; untyped surface read with xyzw
	send.dc1 (8|M0)  r11  r59  null:0  0x0  0x024060FE  {$1} // wr:1+0, rd:4; untyped surface read with xyzw
	sync.allrd  ($11,$12)
	mov (8|M0)  r2.0<1>:ud  r108.0<1;1,0>:ud  {A@4}
	mov (8|M0)  r3.0<1>:ud  r107.0<1;1,0>:ud  {F@3}
	mov (8|M0)  r4.0<1>:ud  r106.0<1;1,0>:ud  {F@2}
	mov (8|M0)  r5.0<1>:ud  r105.0<1;1,0>:ud  {F@1}
	mov (8|M0)  r7.0<1>:ud  r104.0<1;1,0>:ud
	mov (8|M0)  r8.0<1>:ud  r103.0<1;1,0>:ud
	sync.nop  null  {Compacted,$1.dst}
	mad (8|M0)  r72.0<1>:f  r72.0<1;0>:f  r18.0<1;0>:f  r11.0<1>:f
	mad (8|M0)  r80.0<1>:f  r80.0<1;0>:f  r18.0<1;0>:f  r12.0<1>:f
	mad (8|M0)  r26.0<1>:f  r26.0<1;0>:f  r18.0<1;0>:f  r13.0<1>:f
	mad (8|M0)  r34.0<1>:f  r34.0<1;0>:f  r18.0<1;0>:f  r14.0<1>:f
	send.dc1 (8|M0)  r11  r93  null:0  0x0  0x024060FE  {A@1,$2} // wr:1+0, rd:4; untyped surface read with xyzw
	mov (8|M0)  r9.0<1>:ud  r102.0<1;1,0>:ud
	mov (8|M0)  r10.0<1>:ud  r101.0<1;1,0>:ud
	mad (8|M0)  r42.0<1>:f  r42.0<1;0>:f  r18.0<1;0>:f  r11.0<1>:f
	add (8|M0)  r11.0<1>:d  r61.0<1;1,0>:d  8704:w  {F@1}
	mad (8|M0)  r54.0<1>:f  r54.0<1;0>:f  r22.0<1;0>:f  r13.0<1>:f
	send.dc1 (8|M0)  r19  r11  null:0  0x0  0x024060FE  {A@1,$3} // wr:1+0, rd:4; untyped surface read with xyzw
	add (8|M0)  r11.0<1>:d  r61.0<1;1,0>:d  8960:w  {$3.src}
	or (8|M0)  r63.0<1>:d  r59.0<1;1,0>:d  512:w  {Compacted,F@1}
	mad (8|M0)  r48.0<1>:f  r48.0<1;0>:f  r16.0<1;0>:f  r12.0<1>:f
	mad (8|M0)  acc3.0<1>:f  r64.0<1;0>:f  r16.0<1;0>:f  r14.0<1>:f
	send.dc1 (8|M0)  r15  r11  null:0  0x0  0x024060FE  {A@1,$4} // wr:1+0, rd:4; untyped surface read with xyzw
	sync.nop  null  {Compacted,I@1}
	send.dc1 (8|M0)  r11  r63  null:0  0x0  0x024060FE  {$5} // wr:1+0, rd:4; untyped surface read with xyzw
	or (8|M0)  r63.0<1>:d  r59.0<1;1,0>:d  768:w  {Compacted,$5.src}
	sync.nop  null  {Compacted,$5.dst}
	mad (8|M0)  r72.0<1>:f  r72.0<1;0>:f  r18.0<1;0>:f  r11.0<1>:f
	mad (8|M0)  r80.0<1>:f  r80.0<1;0>:f  r18.0<1;0>:f  r12.0<1>:f
	mad (8|M0)  r26.0<1>:f  r26.0<1;0>:f  r18.0<1;0>:f  r13.0<1>:f
	mad (8|M0)  r34.0<1>:f  r34.0<1;0>:f  r18.0<1;0>:f  r14.0<1>:f
	send.dc1 (8|M0)  r11  r63  null:0  0x0  0x024060FE  {A@1,$6} // wr:1+0, rd:4; untyped surface read with xyzw
	mad (8|M0)  r42.0<1>:f  r42.0<1;0>:f  r18.0<1;0>:f  r11.0<1>:f
	add (8|M0)  r11.0<1>:d  r61.0<1;1,0>:d  9216:w  {F@1}
	mad (8|M0)  r54.0<1>:f  r54.0<1;0>:f  r22.0<1;0>:f  r13.0<1>:f
	or (8|M0)  r95.0<1>:d  r59.0<1;1,0>:d  1024:w
	send.dc1 (8|M0)  r19  r11  null:0  0x0  0x024060FE  {A@1,$7} // wr:1+0, rd:4; untyped surface read with xyzw
	add (8|M0)  r11.0<1>:d  r61.0<1;1,0>:d  9472:w  {$7.src}
	mad (8|M0)  acc2.0<1>:f  r48.0<1;0>:f  r16.0<1;0>:f  r12.0<1>:f
	mad (8|M0)  r94.0<1>:f  r100.0<1;0>:f  r18.0<1;0>:f  r14.0<1>:f
	send.dc1 (8|M0)  r15  r11  null:0  0x0  0x024060FE  {A@1,$8} // wr:1+0, rd:4; untyped surface read with xyzw
	send.dc1 (8|M0)  r11  r95  null:0  0x0  0x024060FE  {$9} // wr:1+0, rd:4; untyped surface read with xyzw
	or (8|M0)  r95.0<1>:d  r59.0<1;1,0>:d  1280:w  {Compacted,$9.src}
	sync.nop  null  {Compacted,$9.dst}
	mad (8|M0)  r72.0<1>:f  r72.0<1;0>:f  r18.0<1;0>:f  r11.0<1>:f
	mad (8|M0)  r80.0<1>:f  r80.0<1;0>:f  r18.0<1;0>:f  r12.0<1>:f
	mad (8|M0)  r26.0<1>:f  r26.0<1;0>:f  r18.0<1;0>:f  r13.0<1>:f
	mad (8|M0)  r34.0<1>:f  r34.0<1;0>:f  r18.0<1;0>:f  r14.0<1>:f
	send.dc1 (8|M0)  r11  r95  null:0  0x0  0x024060FE  {A@1,$10} // wr:1+0, rd:4; untyped surface read with xyzw
	or (8|M0)  r95.0<1>:d  r59.0<1;1,0>:d  1536:w  {Compacted,$10.src}
	mad (8|M0)  r42.0<1>:f  r42.0<1;0>:f  r18.0<1;0>:f  r11.0<1>:f
	add (8|M0)  r11.0<1>:d  r61.0<1;1,0>:d  9728:w  {F@1}
	mad (8|M0)  r54.0<1>:f  r54.0<1;0>:f  r22.0<1;0>:f  r13.0<1>:f
	send.dc1 (8|M0)  r19  r11  null:0  0x0  0x024060FE  {A@1,$13} // wr:1+0, rd:4; untyped surface read with xyzw
	add (8|M0)  r11.0<1>:d  r61.0<1;1,0>:d  9984:w  {$13.src}
	mad (8|M0)  r50.0<1>:f  r50.0<1;0>:f  r18.0<1;0>:f  r12.0<1>:f
	mad (8|M0)  r94.0<1>:f  r94.0<1;0>:f  r18.0<1;0>:f  r14.0<1>:f
	send.dc1 (8|M0)  r15  r11  null:0  0x0  0x024060FE  {A@1,$14} // wr:1+0, rd:4; untyped surface read with xyzw
	send.dc1 (8|M0)  r11  r95  null:0  0x0  0x024060FE  {$15} // wr:1+0, rd:4; untyped surface read with xyzw
	or (8|M0)  r95.0<1>:d  r59.0<1;1,0>:d  1792:w  {Compacted,$15.src}
	sync.nop  null  {Compacted,$15.dst}
	mad (8|M0)  r72.0<1>:f  r72.0<1;0>:f  r18.0<1;0>:f  r11.0<1>:f
	mad (8|M0)  r80.0<1>:f  r80.0<1;0>:f  r18.0<1;0>:f  r12.0<1>:f
	mad (8|M0)  r26.0<1>:f  r26.0<1;0>:f  r18.0<1;0>:f  r13.0<1>:f
	mad (8|M0)  r34.0<1>:f  r34.0<1;0>:f  r18.0<1;0>:f  r14.0<1>:f
	send.dc1 (8|M0)  r11  r95  null:0  0x0  0x024060FE  {A@1,$0} // wr:1+0, rd:4; untyped surface read with xyzw
	or (8|M0)  r95.0<1>:d  r59.0<1;1,0>:d  2048:w  {$0.src}
	mad (8|M0)  r42.0<1>:f  r42.0<1;0>:f  r18.0<1;0>:f  r11.0<1>:f
	add (8|M0)  r11.0<1>:d  r61.0<1;1,0>:d  10240:w  {F@1}
	mad (8|M0)  r54.0<1>:f  r54.0<1;0>:f  r22.0<1;0>:f  r13.0<1>:f
	send.dc1 (8|M0)  r19  r11  null:0  0x0  0x024060FE  {A@1,$1} // wr:1+0, rd:4; untyped surface read with xyzw
	add (8|M0)  r11.0<1>:d  r61.0<1;1,0>:d  10496:w  {$1.src}
	mad (8|M0)  r50.0<1>:f  r50.0<1;0>:f  r18.0<1;0>:f  r12.0<1>:f
	mad (8|M0)  r94.0<1>:f  r94.0<1;0>:f  r18.0<1;0>:f  r14.0<1>:f
	send.dc1 (8|M0)  r15  r11  null:0  0x0  0x024060FE  {A@1,$2} // wr:1+0, rd:4; untyped surface read with xyzw
	send.dc1 (8|M0)  r11  r95  null:0  0x0  0x024060FE  {$3} // wr:1+0, rd:4; untyped surface read with xyzw
	or (8|M0)  r95.0<1>:d  r59.0<1;1,0>:d  2304:w  {$3.src}
	sync.nop  null  {Compacted,$3.dst}
	mad (8|M0)  r72.0<1>:f  r72.0<1;0>:f  r18.0<1;0>:f  r11.0<1>:f
	mad (8|M0)  r80.0<1>:f  r80.0<1;0>:f  r18.0<1;0>:f  r12.0<1>:f
	mad (8|M0)  r26.0<1>:f  r26.0<1;0>:f  r18.0<1;0>:f  r13.0<1>:f
	mad (8|M0)  r34.0<1>:f  r34.0<1;0>:f  r18.0<1;0>:f  r14.0<1>:f
	send.dc1 (8|M0)  r11  r95  null:0  0x0  0x024060FE  {A@1,$4} // wr:1+0, rd:4; untyped surface read with xyzw
	or (8|M0)  r95.0<1>:d  r59.0<1;1,0>:d  2560:w  {$4.src}
	mad (8|M0)  r42.0<1>:f  r42.0<1;0>:f  r18.0<1;0>:f  r11.0<1>:f
	add (8|M0)  r11.0<1>:d  r61.0<1;1,0>:d  10752:w  {F@1}
	mad (8|M0)  r54.0<1>:f  r54.0<1;0>:f  r22.0<1;0>:f  r13.0<1>:f
	send.dc1 (8|M0)  r19  r11  null:0  0x0  0x024060FE  {A@1,$5} // wr:1+0, rd:4; untyped surface read with xyzw
	add (8|M0)  r11.0<1>:d  r61.0<1;1,0>:d  11008:w  {$5.src}
	mad (8|M0)  r50.0<1>:f  r50.0<1;0>:f  r18.0<1;0>:f  r12.0<1>:f
	mad (8|M0)  acc0.0<1>:f  r94.0<1;0>:f  r18.0<1;0>:f  r14.0<1>:f
	send.dc1 (8|M0)  r15  r11  null:0  0x0  0x024060FE  {A@1,$6} // wr:1+0, rd:4; untyped surface read with xyzw
	send.dc1 (8|M0)  r11  r95  null:0  0x0  0x024060FE  {$7} // wr:1+0, rd:4; untyped surface read with xyzw
	or (8|M0)  r95.0<1>:d  r59.0<1;1,0>:d  2816:w  {$7.src}
	sync.nop  null  {Compacted,$7.dst}
	mad (8|M0)  r72.0<1>:f  r72.0<1;0>:f  r18.0<1;0>:f  r11.0<1>:f
	mad (8|M0)  r80.0<1>:f  r80.0<1;0>:f  r18.0<1;0>:f  r12.0<1>:f
	mad (8|M0)  r26.0<1>:f  r26.0<1;0>:f  r18.0<1;0>:f  r13.0<1>:f
	mad (8|M0)  r34.0<1>:f  r34.0<1;0>:f  r18.0<1;0>:f  r14.0<1>:f
	send.dc1 (8|M0)  r11  r95  null:0  0x0  0x024060FE  {A@1,$8} // wr:1+0, rd:4; untyped surface read with xyzw
	mad (8|M0)  r42.0<1>:f  r42.0<1;0>:f  r18.0<1;0>:f  r11.0<1>:f
	add (8|M0)  r11.0<1>:d  r61.0<1;1,0>:d  11264:w  {F@1}
	mad (8|M0)  r54.0<1>:f  r54.0<1;0>:f  r22.0<1;0>:f  r13.0<1>:f
	send.dc1 (8|M0)  r19  r11  null:0  0x0  0x024060FE  {A@1,$9} // wr:1+0, rd:4; untyped surface read with xyzw
	add (8|M0)  r11.0<1>:d  r61.0<1;1,0>:d  11520:w  {$9.src}
	or (8|M0)  r94.0<1>:d  r59.0<1;1,0>:d  3072:w
	mad (8|M0)  acc2.0<1>:f  r49.0<1;0>:f  r17.0<1;0>:f  r12.0<1>:f
	mad (8|M0)  r65.0<1>:f  r65.0<1;0>:f  r17.0<1;0>:f  r14.0<1>:f
	send.dc1 (8|M0)  r15  r11  null:0  0x0  0x024060FE  {A@1,$10} // wr:1+0, rd:4; untyped surface read with xyzw
	sync.nop  null  {Compacted,I@1}
	send.dc1 (8|M0)  r11  r94  null:0  0x0  0x024060FE  {$13} // wr:1+0, rd:4; untyped surface read with xyzw
	or (8|M0)  r94.0<1>:d  r59.0<1;1,0>:d  3328:w  {$13.src}
	sync.nop  null  {Compacted,$13.dst}
	mad (8|M0)  r72.0<1>:f  r72.0<1;0>:f  r18.0<1;0>:f  r11.0<1>:f
	mad (8|M0)  r80.0<1>:f  r80.0<1;0>:f  r18.0<1;0>:f  r12.0<1>:f
	mad (8|M0)  r26.0<1>:f  r26.0<1;0>:f  r18.0<1;0>:f  r13.0<1>:f
	mad (8|M0)  r34.0<1>:f  r34.0<1;0>:f  r18.0<1;0>:f  r14.0<1>:f
	send.dc1 (8|M0)  r11  r94  null:0  0x0  0x024060FE  {A@1,$14} // wr:1+0, rd:4; untyped surface read with xyzw
	mad (8|M0)  r42.0<1>:f  r42.0<1;0>:f  r18.0<1;0>:f  r11.0<1>:f
	add (8|M0)  r11.0<1>:d  r61.0<1;1,0>:d  11776:w  {F@4}
	add (8|M0)  r19.0<1>:d  r61.0<1;1,0>:d  12032:w  {F@1}
	or (8|M0)  r61.0<1>:d  r59.0<1;1,0>:d  3584:w
	mad (8|M0)  r48.0<1>:f  acc1.0<1;0>:f  r16.0<1;0>:f  r12.0<1>:f
	mad (8|M0)  r89.0<1>:f  r89.0<1;0>:f  r17.0<1;0>:f  r13.0<1>:f
	mad (8|M0)  acc3.0<1>:f  r92.0<1;0>:f  r15.0<1;0>:f  r14.0<1>:f
	send.dc1 (8|M0)  r15  r11  null:0  0x0  0x024060FE  {A@1,$15} // wr:1+0, rd:4; untyped surface read with xyzw
	sync.nop  null  {Compacted,I@2}
	send.dc1 (8|M0)  r11  r19  null:0  0x0  0x024060FE  {$0} // wr:1+0, rd:4; untyped surface read with xyzw
	sync.nop  null  {Compacted,I@1}
	send.dc1 (8|M0)  r19  r61  null:0  0x0  0x024060FE  {$1} // wr:1+0, rd:4; untyped surface read with xyzw
	or (8|M0)  r59.0<1>:d  r59.0<1;1,0>:d  3840:w
	sync.nop  null  {Compacted,$1.dst}
	mad (8|M0)  r72.0<1>:f  r72.0<1;0>:f  r14.0<1;0>:f  r19.0<1>:f
	mad (8|M0)  r80.0<1>:f  r80.0<1;0>:f  r14.0<1;0>:f  r20.0<1>:f
	mad (8|M0)  r26.0<1>:f  r26.0<1;0>:f  r14.0<1;0>:f  r21.0<1>:f
	mad (8|M0)  r34.0<1>:f  r34.0<1;0>:f  r14.0<1;0>:f  r22.0<1>:f
	send.dc1 (8|M0)  r19  r59  null:0  0x0  0x024060FE  {A@1,$2} // wr:1+0, rd:4; untyped surface read with xyzw
	or (8|M0)  acc0.0<1>:d  r56.6<0;1,0>:d  r57.0<1;1,0>:d  {A@3}
	shl (8|M0)  r11.0<1>:d  acc0.0<1;1,0>:d  4:w  {F@2}
	sync.nop  null  {Compacted,I@1}
	send.dc1 (8|M0)  null  r11  r2:4  0x0  0x020260FE  {$3} // wr:1+4, rd:0; untyped surface write with xyzw
	add (8|M0)  r2.0<1>:d  r11.0<1;1,0>:d  8192:w  {$3.src}
	mad (8|M0)  r37.0<1>:f  r37.0<1;0>:f  r17.0<1;0>:f  r19.0<1>:f
	sync.nop  null  {Compacted,I@1}
	send.dc1 (8|M0)  null  r2  r7:4  0x0  0x020260FE  {$4} // wr:1+4, rd:0; untyped surface write with xyzw
	mad (8|M0)  r46.0<1>:f  r46.0<1;0>:f  r18.0<1;0>:f  r20.0<1>:f
	mad (8|M0)  r60.0<1>:f  r60.0<1;0>:f  r16.0<1;0>:f  r22.0<1>:f
	mad (8|M0)  r66.0<1>:f  r95.0<1;0>:f  r14.0<1;0>:f  r22.0<1>:f
	sync.nop  null  {Compacted,$4.src}
(W) send.slm (1|M0)  r2  r67  null:0  0x0  0x0210011F  {$5} // wr:1+0, rd:1; fence.slm.none.group
(W) mov (8|M0)  null<1>:ud  r2.0<1;1,0>:ud  {$5.dst}
(W) mov (1|M0)  r2.2<1>:ud  0x0:ud
(W) mov (2|M0)  r2.10<1>:ub  r67.11<0;1,0>:ub
(W) send.gtwy (1|M0)  null  r2  null:0  0x0  0x02000004  {A@1,$12} // wr:1+0, rd:0; signal barrier
(W) sync.bar  null
(W) jmpi  L3320
L9336:
(W) send.gtwy (8|M0)  null  r112  null:0  0x0  0x02000010  {EOT,A@1} // wr:1+0, rd:0; end of thread
