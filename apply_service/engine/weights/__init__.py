"""How a model's weights lie on the device: number format of the linear layers, and which of them are multiplied as one.

`conversion` brings a model to its device layer by layer and changes it on the way; `linear` has the layers in 8 bits,
`joint` those that share their input, `rows` the number formats themselves, `row_kernel` and `int8_kernel` what runs on
CUDA.
"""
