/** Whether the controls of a part of a page may change what it shows. An operator only reads what others installed. */
import { createContext, useContext } from 'react';

const ReadOnlyContext = createContext(false);

/** Hides the buttons inside that would change something. */
export const ReadOnlyArea = ReadOnlyContext.Provider;
export const useReadOnly = (): boolean => useContext(ReadOnlyContext);
