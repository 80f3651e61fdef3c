"""What is run of the larger packages: models of their own, trainers, adapters, metrics, files.

Contract: as `programs`, whose table these join. Configurations are tiny and weights random: nothing
is fetched.
"""

from typing import Any

import numpy as np
from program import Program, normal, words

# -- Hugging Face --------------------------------------------------------------------------------


def _language_model() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32,
        initializer_range=0.3,
    )  # fmt: skip
    return LlamaForCausalLM(sizes)


def _masked(*shape: int) -> np.ndarray:
    """Which words count: the second sentence is shorter."""
    mask = np.ones(shape, np.int64)
    mask[1, -3:] = 0
    return mask


def _loss_and_logits(model: Any, ids: Any, mask: Any) -> Any:
    found = model(input_ids=ids, attention_mask=mask, labels=ids)
    return found.loss, found.logits


def llama(torch: Any) -> Program:
    model = _language_model()
    return Program(model, (words(2, 8), _masked(2, 8)), _loss_and_logits, is_whole=True)


def generation(torch: Any) -> Program:
    def call(model: Any, ids: Any) -> Any:
        model.eval()
        mask = torch.ones_like(ids)
        chosen = {"do_sample": False, "max_new_tokens": 6, "pad_token_id": 0}
        greedy = model.generate(ids, attention_mask=mask, **chosen)
        beams = model.generate(ids, attention_mask=mask, num_beams=2, **chosen)
        return greedy, beams

    def compiled(program: Program) -> Any:
        program.model.forward = torch.compile(program.model.forward)
        return program.call

    return Program(_language_model(), (words(2, 5),), call, compiled=compiled)


def bert(torch: Any) -> Program:
    from transformers import BertConfig, BertForMaskedLM

    sizes = BertConfig(
        vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=16, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, initializer_range=0.3,
    )  # fmt: skip
    return Program(
        BertForMaskedLM(sizes), (words(2, 8), _masked(2, 8)), _loss_and_logits, is_whole=True
    )


def unet(torch: Any) -> Program:
    from diffusers import DDPMScheduler, UNet2DConditionModel

    model = UNet2DConditionModel(
        sample_size=4, in_channels=2, out_channels=2, layers_per_block=1, block_out_channels=(8, 8),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=8, attention_head_dim=4, norm_num_groups=2,
    )  # fmt: skip
    noise = DDPMScheduler(num_train_timesteps=10)

    def call(model: Any, x: Any, drawn: Any, words: Any) -> Any:
        times = torch.tensor([3, 7])
        noisy = noise.add_noise(x, drawn, times)
        return model(noisy, times, encoder_hidden_states=words).sample

    inputs = (normal(2, 2, 4, 4), normal(2, 2, 4, 4)[::-1].copy(), normal(2, 3, 8))
    return Program(model, inputs, call)


def _perceptron(torch: Any) -> Any:
    return torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.GELU(), torch.nn.Linear(12, 3))


def accelerator(torch: Any) -> Program:
    from accelerate import Accelerator

    helper = Accelerator(cpu=True)

    def call(model: Any, x: Any) -> Any:
        return helper.prepare_model(model)(x)

    def optimizer(parameters: Any) -> Any:
        return helper.prepare_optimizer(torch.optim.AdamW(parameters, lr=1e-2))

    def compiled(program: Program) -> Any:
        whole = torch.compile(helper.prepare_model(program.model))
        return lambda model, x: whole(x)

    return Program(_perceptron(torch), (normal(4, 6),), call, optimizer, compiled=compiled)


def adapters(torch: Any) -> Program:
    from peft import LoraConfig, get_peft_model

    ranks = LoraConfig(r=2, lora_alpha=4, target_modules=["0", "2"], init_lora_weights=False)
    return Program(get_peft_model(_perceptron(torch), ranks), (normal(4, 6),), is_whole=True)


def safe_tensors(torch: Any) -> Program:
    from safetensors.torch import load, save

    def call(model: Any, x: Any) -> Any:
        kinds = ["float32", "float16", "bfloat16", "int64", "uint8", "bool", "float8_e4m3fn"]
        written = {kind: x.to(getattr(torch, kind)) for kind in kinds}
        read = load(save({**written, **{k: v.detach() for k, v in model.state_dict().items()}}))
        values = [read.pop(kind) for kind in kinds]
        back = torch.func.functional_call(model, read, (x,))
        return (model(x), back, *(value.float() for value in values))

    def compiled(program: Program) -> Any:
        return program.call  # the package reads bytes

    return Program(_perceptron(torch), (np.abs(normal(4, 6)),), call, compiled=compiled)


# -- images --------------------------------------------------------------------------------------


def images_of_timm(torch: Any) -> Program:
    from timm.models.vision_transformer import VisionTransformer

    model = VisionTransformer(
        img_size=8, patch_size=4, embed_dim=16, depth=1, num_heads=2, num_classes=3
    )
    return Program(model, (normal(2, 3, 8, 8),), is_whole=True)


def images_of_torchvision(torch: Any) -> Program:
    from torchvision.models.resnet import BasicBlock
    from torchvision.ops import MLP, StochasticDepth
    from torchvision.transforms import v2

    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), BasicBlock(8, 8), torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(), StochasticDepth(0.0, "row"), MLP(8, [6, 3]),
    )  # fmt: skip
    prepared = v2.Compose([v2.CenterCrop(8), v2.Normalize([0.5] * 3, [0.25] * 3)])
    return Program(model, (normal(2, 3, 12, 12),), lambda model, x: model(prepared(x)))


# -- training ------------------------------------------------------------------------------------


def metrics(torch: Any) -> Program:
    from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score
    from torchmetrics.regression import MeanSquaredError

    target = torch.from_numpy(words(8, count=3))

    def call(model: Any, x: Any) -> Any:
        scores = model(x)
        kept = MulticlassAccuracy(num_classes=3)
        kept.update(scores[:4], target[:4])
        kept.update(scores[4:], target[4:])
        f1 = MulticlassF1Score(num_classes=3, average="macro")(scores, target)
        error = MeanSquaredError()(scores[:, 0], target.float())
        return scores, kept.compute(), f1, error

    def compiled(program: Program) -> Any:
        whole = torch.compile(program.model)
        return lambda model, x: program.call(whole, x)

    return Program(_perceptron(torch), (normal(8, 6),), call, compiled=compiled)


def _trainer(torch: Any, lightning: Any) -> Program:
    class Regression(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = _perceptron(torch)

        def training_step(self, batch: Any, place: int) -> Any:
            x, y = batch
            loss = torch.nn.functional.mse_loss(self.inner(x), y)
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]

    def call(model: Any, x: Any, y: Any) -> Any:
        pairs = torch.utils.data.TensorDataset(x, y)
        trainer = lightning.Trainer(
            max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
        )  # fmt: skip
        trainer.fit(model, torch.utils.data.DataLoader(pairs, batch_size=4))
        shown = trainer.callback_metrics["loss"]
        return (shown, *(parameter.detach() for parameter in model.parameters()))

    def compiled(program: Program) -> Any:
        program.model.inner.compile()
        return program.call

    inputs = (normal(8, 6), normal(8, 3))
    return Program(Regression(), inputs, call, compiled=compiled)


def lightning_trainer(torch: Any) -> Program:
    from lightning import pytorch

    return _trainer(torch, pytorch)


def older_lightning_trainer(torch: Any) -> Program:
    import pytorch_lightning

    return _trainer(torch, pytorch_lightning)


def ignite_engine(torch: Any) -> Program:
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
    from ignite.metrics import MeanSquaredError

    def call(model: Any, x: Any, y: Any, trained: Any = None) -> Any:
        loss = torch.nn.functional.mse_loss
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        trainer = create_supervised_trainer(trained or model, optimizer, loss)
        evaluator = create_supervised_evaluator(model, {"error": MeanSquaredError()})
        errors = []

        @trainer.on(Events.EPOCH_COMPLETED)  # type: ignore[untyped-decorator]
        def evaluate() -> None:
            errors.append(evaluator.run([(x, y)]).metrics["error"])

        batches = [(x[:4], y[:4]), (x[4:], y[4:])]
        trainer.run(batches, max_epochs=2)
        return (torch.tensor(errors), *(parameter.detach() for parameter in model.parameters()))

    def compiled(program: Program) -> Any:
        whole = torch.compile(program.model)
        return lambda model, x, y: program.call(model, x, y, whole)

    return Program(_perceptron(torch), (normal(8, 6), normal(8, 3)), call, compiled=compiled)


ECOSYSTEMS = {
    "transformers.llama": llama,
    "transformers.generate": generation,
    "transformers.bert": bert,
    "diffusers.unet": unet,
    "accelerate": accelerator,
    "peft": adapters,
    "safetensors.torch": safe_tensors,
    "timm": images_of_timm,
    "torchvision": images_of_torchvision,
    "torchmetrics": metrics,
    "lightning": lightning_trainer,
    "pytorch_lightning": older_lightning_trainer,
    "ignite": ignite_engine,
}
