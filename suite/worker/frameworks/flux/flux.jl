# One model of Flux, for the session in Python (session.py). The syntax is that of Julia 1.5, the
# calls are those of Flux 0.12 to 0.16: layers from arrays, and `gradient` of a function of the model.
module Work

using Flux
using LinearAlgebra

threads(count) = LinearAlgebra.BLAS.set_num_threads(count)
version() = string(isdefined(Base, :pkgversion) ? Base.pkgversion(Flux) : Flux.VERSION)

# A convolution flips the kernel: ours is a cross-correlation.
flipped(weight) = reverse(reverse(weight; dims = 1); dims = 2)

# Max pooling by a reshape, of which only the first of equal values has the gradient. That of NNlib
# takes the first value that is approximately equal to the maximum (rtol 3.45e-4).
function max_pool(x, kernel, stride, pad)
    if kernel != stride || any(pad .> 0)
        return Flux.MaxPool(kernel; stride = stride, pad = pad)(x)
    end
    (width, height), (w, h) = size(x)[1:2] .÷ kernel, kernel
    cut = x[1:width*w, 1:height*h, :, :]
    parts = reshape(cut, w, width, h, height, size(x, 3), size(x, 4))
    return dropdims(maximum(parts; dims = (1, 3)); dims = (1, 3))
end

# The mean over the whole image.
global_mean(x) = reshape(sum(x; dims = (1, 2)) ./ (size(x, 1) * size(x, 2)), size(x, 3), size(x, 4))

mutable struct Optimizer
    name::Symbol
    rate::Float64
    options::Dict{Symbol,Float64}
    slots::Vector{Vector{Any}}
    steps::Int
end

mutable struct Model
    chain::Any
    paths::Vector{Any}      # of each parameter: the positions in the chain, then the field
    shape::Tuple            # of a batch of inputs
    classes::Int
    optimizer::Optimizer
    gradients::Vector{Any}
    problem::String
end

current = Ref{Any}(nothing)

at(value, path) = foldl((each, key) -> key isa Int ? parts(each)[key] : getproperty(each, key), path; init = value)
parts(each) = hasproperty(each, :layers) ? getproperty(each, :layers) : each

parameters(model) = [at(model.chain, path) for path in model.paths]

function start(chain, paths, shape, classes, name, rate, options, slots)
    made = [at(chain, path) for path in paths]
    zeros_of = [Any[zero(each) for each in made] for _ in 1:slots]
    optimizer = Optimizer(name, rate, Dict{Symbol,Float64}(options), zeros_of, 0)
    current[] = Model(chain, collect(paths), shape, classes, optimizer, Any[], "")
    return nothing
end

inputs_at(model, address) = unsafe_wrap(Array, address, model.shape)
labels_at(model, address) = unsafe_wrap(Array, address, model.shape[end])

function loss_of(chain, x, y)
    return Flux.Losses.logitcrossentropy(chain(x), y)
end

function differentiate(model, x, labels)
    y = Flux.onehotbatch(labels, 0:model.classes-1)
    value = Ref{Float32}(0)
    found = Flux.gradient(model.chain) do chain
        loss = loss_of(chain, x, y)
        value[] = loss
        loss
    end
    model.gradients = Any[at(found[1], path) for path in model.paths]
    return value[]
end

# The formulas of docs/reference/optimizers.md.
function update(optimizer, number, weight, gradient)
    rate, options = Float32(optimizer.rate), optimizer.options
    if optimizer.name == :sgd
        weight .-= rate .* gradient
    elseif optimizer.name == :momentum
        velocity = optimizer.slots[1][number]
        velocity .= Float32(options[:momentum]) .* velocity .+ gradient
        weight .-= rate .* velocity
    elseif optimizer.name == :rmsprop
        second, decay = optimizer.slots[1][number], Float32(options[:decay])
        second .= decay .* second .+ (1 - decay) .* gradient .^ 2
        weight .-= rate .* gradient ./ sqrt.(second .+ Float32(options[:epsilon]))
    else
        first_moment, second = optimizer.slots[1][number], optimizer.slots[2][number]
        one, two = Float32(options[:beta1]), Float32(options[:beta2])
        first_moment .= one .* first_moment .+ (1 - one) .* gradient
        second .= two .* second .+ (1 - two) .* gradient .^ 2
        of_first = Float32(1 - options[:beta1]^optimizer.steps)
        of_second = Float32(1 - options[:beta2]^optimizer.steps)
        if optimizer.name == :adamw
            weight .*= 1 - rate * Float32(options[:weight_decay])
        end
        largest = sqrt.(second ./ of_second) .+ Float32(options[:epsilon])
        weight .-= rate .* (first_moment ./ of_first) ./ largest
    end
    return nothing
end

# Functions for Python. An error must not pass through C: it is kept, and the result is NaN.
function guarded(work)
    model = current[]
    try
        return Float32(work(model))
    catch error
        model.problem = sprint(showerror, error)
        return NaN32
    end
end

function train_step(inputs::Ptr{Float32}, labels::Ptr{Int32})::Float32
    return guarded() do model
        Flux.trainmode!(model.chain)
        loss = differentiate(model, inputs_at(model, inputs), labels_at(model, labels))
        model.optimizer.steps += 1
        for (number, weight) in enumerate(parameters(model))
            update(model.optimizer, number, weight, model.gradients[number])
        end
        loss
    end
end

function gradients(inputs::Ptr{Float32}, labels::Ptr{Int32}, logits::Ptr{Float32})::Float32
    return guarded() do model
        Flux.trainmode!(model.chain)
        x = inputs_at(model, inputs)
        loss = differentiate(model, x, labels_at(model, labels))
        copy_to(logits, model.chain(x))
        loss
    end
end

function infer(inputs::Ptr{Float32}, logits::Ptr{Float32})::Float32
    return guarded() do model
        Flux.testmode!(model.chain)
        copy_to(logits, model.chain(inputs_at(model, inputs)))
        0
    end
end

copy_to(address, values) = copyto!(unsafe_wrap(Array, address, length(values)), vec(values))

# What a number means: a parameter (1 ...), kind 1; its gradient, kind 2; its slots, kinds 3 and 4.
function read_values(kind::Int32, number::Int32, target::Ptr{Float32})::Float32
    return guarded() do model
        copy_to(target, chosen(model, kind)[number])
        0
    end
end

function chosen(model, kind)
    kind == 1 && return parameters(model)
    kind == 2 && return model.gradients
    return model.optimizer.slots[kind-2]
end

steps() = current[].optimizer.steps
problem() = current[].problem

end
