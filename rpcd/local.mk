# rpcd
