"""LoRA fine-tuning on chats: of the embedded model, or of any other."""
