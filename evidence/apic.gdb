set pagination off
set $t = *(unsigned long*)&local_apics
set $a = *(unsigned long*)$t
set $b = *(unsigned long*)($t+8)
printf "apic0 isr/tmr/irr\n"
x/8wx $a+0x1d0
x/8wx $a+0x1f0
x/8wx $a+0x210
x/30wx $a+0x230
printf "apic1\n"
x/8wx $b+0x1d0
x/8wx $b+0x210
x/30wx $b+0x230
