// @ts-check
/** What the server says, in types. Nothing here runs. */

/**
 * @typedef {{ id: number, name: string, color: number, light: string, dark: string, named: boolean, given: number, accepted: number, predicted: number }} ClassInfo
 * @typedef {{ version: number, kind: string, at: string, summary: string, undone: boolean }} Action
 * @typedef {{ estimate: number, low: number, high: number, source: string }} Accuracy
 * @typedef {"pictures" | "texts" | "vectors"} Kind
 * @typedef {object} State
 * @property {number} version
 * @property {number} predicted
 * @property {number} settled
 * @property {number} revision
 * @property {{ name: string, kind: Kind, total: number, tiny: boolean, key: string }} source
 * @property {{ done: number, total: number, failed: number, finished: boolean, problem: string | null }} embedding
 * @property {ClassInfo[]} classes
 * @property {{ usable: boolean, reason: string | null, counted: number }} names
 * @property {Record<"given" | "accepted" | "predicted" | "unlabeled" | "waiting" | "failed" | "disputed" | "novel" | "suggested", number>} counts
 * @property {number} folder_labels  labels that are names of folders
 * @property {Accuracy | null} accuracy
 * @property {Action | null} undo
 * @property {Action | null} redo
 * @property {{ ready: boolean, revision: number }} map
 * @property {string | null} hint
 * @property {number | null} seconds
 *
 * @typedef {object} Item
 * @property {number} index
 * @property {string} id
 * @property {string | null} text
 * @property {number | null} class
 * @property {"given" | "accepted" | "predicted" | "unlabeled" | "waiting" | "failed"} origin
 * @property {"person" | "accepted" | "imported" | "source" | null} how
 * @property {number | null} confidence
 * @property {number | null} dispute
 * @property {boolean} novel
 * @property {number} suggestion
 * @property {string | null} reason
 *
 * @typedef {Item & { probabilities: { class: number, probability: number }[], neighbors: number[] }} Detail
 */

export {};
