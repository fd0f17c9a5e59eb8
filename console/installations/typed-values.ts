/** What the user typed for an installation and has not saved. */
import { useEffect, useState } from 'react';
import { type FormValues, hasSecrets, mergeValues, UNCHANGED } from '../configuration/form-values.ts';

/** Values that an action could not save. */
export interface UnsavedValues {
  readonly values: FormValues;
  /** The version whose secrets the form showed. Null: none. */
  readonly versionId: string | null;
  /** What was done, and why the values are not saved. */
  readonly failure: string;
}

/** By installation, for its page, which is not open yet. Only in memory, because there may be secrets among the values. */
const handedOver = new Map<string, UnsavedValues>();

/** Gives the page of an installation, when it is opened next, what could not be saved. */
export function handOverValues(id: string, unsaved: UnsavedValues): void {
  handedOver.set(id, unsaved);
}

interface Entered {
  readonly filled: FormValues;
  /** The version that was shown when the user began to enter secrets: another one may use them in other ways. Null: not known. */
  readonly enteredFor: string | null;
}

/** @param shownId the version that was shown. It counts only if there was no secret before: the user saw another one then */
export const enterValues = (before: Entered, filled: FormValues, shownId: string | null): Entered => ({
  filled,
  enteredFor: hasSecrets(before.filled) ? before.enteredFor : shownId,
});

export type TypedValues = ReturnType<typeof useTypedValues>;

/** The state of the page of an installation, so that what is typed in its settings stays while another tab is open. */
export function useTypedValues(id: string) {
  const [received] = useState(() => handedOver.get(id));
  const [entered, setEntered] = useState<Entered>({
    filled: received?.values ?? UNCHANGED,
    enteredFor: received?.versionId ?? null,
  });
  const [failure, setFailure] = useState(received?.failure ?? null);
  useEffect(() => {
    handedOver.delete(id);
  }, [id]);
  return {
    ...entered,
    setEntered,
    /** Why an earlier action has not saved them. Null: none has failed. */
    failure,
    setFailure,
    /** Adds what another form of the page could not save. */
    add: (unsaved: UnsavedValues) => {
      setEntered((now) => enterValues(now, mergeValues(now.filled, unsaved.values), unsaved.versionId));
      setFailure(unsaved.failure);
    },
  };
}
