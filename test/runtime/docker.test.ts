import { startDocker } from '../support/engines.ts';
import { engineSuite } from './engine-suite.ts';

engineSuite(startDocker);
