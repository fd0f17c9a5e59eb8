/** The Node version of plugins: wall L2 depends on its options. */
export const NODE_MAJOR = 26;

/** Whether this process runs on that version or a later one. */
export const isPluginNode = (): boolean => Number.parseInt(process.versions.node, 10) >= NODE_MAJOR;
