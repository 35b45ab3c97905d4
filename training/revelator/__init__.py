"""Fine-tuning of HANRAG's Revelator (Sec. 4.2, App. B and D): its five data sets, a LoRA adapter, before and after."""
